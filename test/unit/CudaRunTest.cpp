// SPDX-License-Identifier: Apache-2.0
//
// Training on the emulated CUDA device: the losses and weights of ref, and whichever call of CUDA fails, an end with an error
// that names it, without a hang or a leak.
#include "kernels/Registry.h"
#include "runtime/Trainer.h"
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/RuntimeModel.h"

#include <gmock/gmock.h>

#include <map>

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

using testing::HasSubstr;

DeviceKernels tableOf(const std::string &name, KernelTable t) {
  return {name, [t](const char *op, DType first) { return findKernel(t, op, first); }};
}
Device cudaDevice() {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  Device d{"cuda", {tableOf("cuda", {p->kernels, p->numKernels})}};
  d.api = p->api;
  d.hostKernels = {tableOf("ref", refKernels())};
  return d;
}

struct Outcome {
  Status status;
  std::vector<double> values; // losses, then weights
};

Outcome train(Device device, int64_t gradAccum, int steps, int64_t world = 1, int64_t stage = 0) {
  Outcome out;
  RunOptions o;
  o.data = "synthetic:7";
  o.threads = 1;
  auto trainer = Trainer::create(makeMlp(world, gradAccum, stage), std::move(device), o);
  if (!trainer.ok()) {
    out.status = std::move(trainer).status();
    return out;
  }
  for (int i = 0; i < steps; ++i) {
    auto u = (*trainer)->step();
    if (!u.ok()) {
      out.status = std::move(u).status();
      return out;
    }
    out.values.push_back(u->loss);
  }
  for (const char *name : {"w1.weight", "w2.weight"}) {
    auto w = (*trainer)->readParam(name);
    if (!w.ok()) {
      out.status = std::move(w).status();
      return out;
    }
    out.values.insert(out.values.end(), w->begin(), w->end());
  }
  return out;
}

TEST(CudaRun, TrainsLikeRef) {
  for (int64_t accum : {1, 2, 4}) {
    SCOPED_TRACE(accum);
    Outcome cuda = train(cudaDevice(), accum, 6), ref = train(refDevice(), accum, 6);
    ASSERT_EQ(cuda.status.str(), "");
    ASSERT_EQ(cuda.values.size(), 198u);
    for (size_t i = 0; i < ref.values.size(); ++i)
      EXPECT_NEAR(cuda.values[i], ref.values[i], 1e-5 * (1 + std::fabs(ref.values[i]))) << i;
    EXPECT_EQ(train(cudaDevice(), accum, 6).values, cuda.values);
  }
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

// One of every `stride` calls.
void failCalls(int64_t stride) {
  int64_t before = emulated::calls();
  ASSERT_EQ(train(cudaDevice(), 2, 2).status.str(), "");
  int64_t calls = emulated::calls() - before, told = 0;
  ASSERT_GT(calls, 100);
  for (int64_t n = 1; n <= calls; n += stride) {
    emulated::failCall("", n);
    Outcome o = train(cudaDevice(), 2, 2);
    emulated::failCall("", 0);
    ASSERT_EQ(emulated::liveAllocations(), 0) << "call " << n << " of " << calls;
    if (o.status.ok())
      continue; // while everything was given back
    ++told;
    EXPECT_THAT(o.status.str(), testing::AnyOf(HasSubstr("cuda"), HasSubstr("cublas")))
        << "call " << n;
    EXPECT_THAT(o.status.str(), testing::AnyOf(HasSubstr("cudaErrorUnknown"),
                                               HasSubstr("CUBLAS_STATUS_INTERNAL_ERROR")))
        << "call " << n;
  }
  EXPECT_GT(told, calls / stride * 8 / 10);
}

TEST(CudaRun, FailingCallsEndTheRun) { failCalls(23); }
TEST(CudaRunSlow, EveryFailingCallEndsTheRun) { failCalls(1); }

TEST(CudaRun, TooLittleMemoryIsTold) {
  emulated::failCall("cudaMalloc", 1);
  EXPECT_THAT(train(cudaDevice(), 1, 1).status.str(), HasSubstr("cudaMalloc"));
  emulated::failCall("", 0);
}

// All pinned memory is one block, updates allocate nothing, and the host waits for the device between them alone.
TEST(CudaRun, UpdatesNeitherAllocateNorWait) {
  auto callsOf = [](int steps) {
    std::map<std::string, int64_t> calls;
    const char *names[] = {"cudaMalloc", "cudaMallocHost", "cudaStreamSynchronize",
                           "cudaEventSynchronize", "cudaDeviceSynchronize"};
    for (const char *name : names)
      calls[name] -= emulated::calls(name);
    EXPECT_EQ(train(cudaDevice(), 4, steps).status.str(), "");
    for (const char *name : names)
      calls[name] += emulated::calls(name);
    return calls;
  };
  auto two = callsOf(2), five = callsOf(5);
  EXPECT_EQ(two["cudaMallocHost"], 1);
  two["cudaStreamSynchronize"] += 3;    // for the learning rate, before an update
  two["cudaEventSynchronize"] += 3 * 2; // behind it for its values, and for the feeder's slot
  EXPECT_EQ(two, five);
}

// CUDA keeps it for the thread's next launch, unless somebody asks.
TEST(CudaRun, AnErrorIsToldOnce) {
  const DsDeviceApi &api = *cudaDevice().api;
  std::vector<float> in(4, 1), out(4);
  const void *sources[] = {in.data()};
  void *p = nullptr, *s = nullptr;
  ASSERT_EQ(api.open(0, nullptr), nullptr);
  ASSERT_EQ(api.streamCreate(&s), nullptr);
  for (auto [call, memory] :
       {std::pair("cudaMallocHost", DsMemoryPinned), {"cudaMalloc", DsMemoryDevice}}) {
    emulated::failCall(call, 1);
    EXPECT_THAT(api.allocate(memory, 8, &p), HasSubstr("cudaErrorUnknown"));
    emulated::failCall("", 0);
    EXPECT_STREQ(api.sum(out.data(), sources, 1, 4, static_cast<uint8_t>(DType::F32), s), nullptr);
  }
  EXPECT_EQ(api.streamSync(s), nullptr);
  EXPECT_EQ(api.streamDestroy(s), nullptr);
  EXPECT_EQ(out, in);
}

// Streams and events are of the device that is current when they are made.
TEST(CudaRun, DevicesAreToldApart) {
  const DsDeviceApi &api = *cudaDevice().api;
  std::vector<float> in(4, 1), out(4);
  const void *sources[] = {in.data()};
  void *stream = nullptr, *own = nullptr, *other = nullptr;
  ASSERT_EQ(api.open(1, nullptr), nullptr);
  ASSERT_EQ(api.eventCreate(&other), nullptr);
  ASSERT_EQ(api.open(0, nullptr), nullptr);
  ASSERT_EQ(api.streamCreate(&stream), nullptr);
  ASSERT_EQ(api.eventCreate(&own), nullptr);
  EXPECT_EQ(api.eventRecord(own, stream), nullptr);
  EXPECT_THAT(api.eventRecord(other, stream), HasSubstr("cudaErrorInvalidResourceHandle"));
  ASSERT_EQ(api.captureBegin(stream), nullptr);
  EXPECT_THAT(api.captureRecord(other, stream), HasSubstr("cudaErrorInvalidResourceHandle"));
  EXPECT_EQ(api.captureEnd(stream, nullptr), nullptr);
  ASSERT_EQ(api.open(1, nullptr), nullptr);
  EXPECT_EQ(api.eventWait(stream, other), nullptr);
  EXPECT_THAT(api.sum(out.data(), sources, 1, 4, static_cast<uint8_t>(DType::F32), stream),
              HasSubstr("cudaErrorInvalidResourceHandle"));
  EXPECT_THAT(api.open(8, nullptr), HasSubstr("cudaErrorInvalidDevice"));
  ASSERT_EQ(api.open(0, nullptr), nullptr);
  for (void *e : {own, other})
    EXPECT_EQ(api.eventDestroy(e), nullptr);
  EXPECT_EQ(api.streamDestroy(stream), nullptr);
}

TEST(CudaRun, RanksAndStagesGiveTheBitsOfOthers) {
  for (int64_t world : {2, 3, 4}) {
    SCOPED_TRACE(world);
    std::vector<double> stage3 = train(cudaDevice(), 2, 4, world, 3).values;
    EXPECT_EQ(stage3.size(), 196u);
    EXPECT_EQ(train(cudaDevice(), 2, 4, world, 0).values, stage3);
    Outcome ref = train(refDevice(), 2, 4, world, 3);
    for (size_t i = 0; i < ref.values.size(); ++i)
      EXPECT_NEAR(stage3[i], ref.values[i], 1e-5 * (1 + std::fabs(ref.values[i]))) << i;
  }
}

} // namespace
} // namespace ds::test
