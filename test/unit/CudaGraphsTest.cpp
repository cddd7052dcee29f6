// SPDX-License-Identifier: Apache-2.0
//
// Launches that are captured as graphs: the same values as one by one, errors that name the instruction, and what the
// emulation refuses while a stream is captured.
#include "runtime/Trainer.h"
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/EmulatedDevice.h"
#include "test/unit/RuntimeModel.h"

#include <gmock/gmock.h>

#include <thread>

namespace ds::test {
namespace {

using testing::HasSubstr;

struct Outcome {
  std::string error;
  std::vector<double> values; // losses, then weights
  int64_t graphs = 0;         // launched by the last update
};

Outcome train(bool graphs, int64_t gradAccum, int64_t world, int64_t stage) {
  Outcome out;
  RunOptions o;
  o.data = "synthetic:7";
  o.threads = 1;
  o.graphs = graphs;
  auto trainer = Trainer::create(makeMlp(world, gradAccum, stage), emulatedDevice(), o);
  if (!trainer.ok())
    return {trainer.status().str(), {}};
  for (int i = 0; i < 3; ++i) {
    auto u = (*trainer)->step();
    if (!u.ok())
      return {u.status().str(), {}};
    out.values.push_back(u->loss);
    out.graphs = u->graphLaunches;
    EXPECT_GT(u->enqueueNs, 0);
  }
  for (const char *name : {"w1.weight", "w2.weight"}) {
    auto w = (*trainer)->readParam(name);
    out.values.insert(out.values.end(), w->begin(), w->end());
  }
  return out;
}

TEST(CudaGraphs, ChangeNothing) {
  for (auto [accum, world, stage] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 0}, {3, 1, 0}, {2, 2, 3}}) {
    Outcome with = train(true, accum, world, stage), without = train(false, accum, world, stage);
    EXPECT_EQ(with.error, "");
    EXPECT_EQ(with.values, without.values);
    EXPECT_GE(with.graphs, accum);
    EXPECT_EQ(without.graphs, 0);
  }
}

TEST(CudaGraphs, CallsThatFailAreTold) {
  for (const char *call : {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                           "cudaGraphDestroy", "cudaGraphLaunch"})
    for (int64_t n : {1, 2}) {
      emulated::failCall(call, n);
      EXPECT_THAT(
          train(true, 2, 1, 0).error,
          testing::AllOf(HasSubstr(call), HasSubstr("cudaErrorUnknown"), HasSubstr("update 2: ")))
          << call << " " << n;
      emulated::failCall("", 0);
      EXPECT_EQ(emulated::liveAllocations(), 0) << call;
    }
}

TEST(CudaGraphs, CapturesAllowNoWaiting) {
  cudaStream_t s = nullptr, other = nullptr;
  cudaEvent_t e = nullptr;
  cudaGraph_t g = nullptr;
  void *p = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&s, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, 0), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&e, 0), cudaSuccess);
  auto begin = [&] {
    ASSERT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  };
  EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaMalloc(&p, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(cudaEventRecord(e, other), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
  begin();
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(s, &g), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, g, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(g), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, s), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(e), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, s), cudaErrorInvalidValue);
  cudaEventDestroy(e);
  cudaStreamDestroy(s);
  cudaStreamDestroy(other);
}

} // namespace
} // namespace ds::test
