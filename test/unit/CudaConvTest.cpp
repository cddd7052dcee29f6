// SPDX-License-Identifier: Apache-2.0
//
// Training with convolutions on the emulated CUDA device: the losses of ref at every stage, with cuDNN and without, and whichever
// of cuDNN's calls fails, an end with an error that names call and instruction, without a hang or a leak.
#include "ir/GraphText.h"
#include "passes/Passes.h"
#include "runtime/Trainer.h"
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/EmulatedDevice.h"
#include "test/unit/RuntimeModel.h"

#include <gmock/gmock.h>

namespace ds::test {
namespace {

using testing::HasSubstr;

const char *const kModel = R"(module @conv {
  param @w1 : f32[4,2,3,3] init normal(1,0.4)
  param @w2 : f32[3,4,3,3] init normal(2,0.4)
  param @w3 : f32[3,3,2,2] init normal(3,0.4)

  func @micro(%x: f32[4,2,6,6]) {
  forward:
    %a = conv %x, @w1 {low=[1,1], high=[1,1]} : f32[4,4,6,6]
    %b = relu %a : f32[4,4,6,6]
    %c = conv %b, @w2 {strides=[2,2], low=[1,1], high=[1,1]} : f32[4,3,3,3]
    %d = relu %c : f32[4,3,3,3]
    %e = conv %d, @w3 {low=[1,1], high=[1,1]} : f32[4,3,4,4]
    %logits = reshape %e : f32[4,48]
    return %logits
  }
}
)";

Schedule plannedConv(int world, int stage) {
  PlanConfig c;
  c.stage = stage;
  c.world = world;
  c.microBatch = 4;
  c.gradAccum = 1;
  c.trainBatch = 4 * world;
  c.optimizer.type = "sgd";
  c.loss.kind = LossConfig::Kind::CrossEntropy;
  c.loss.logits = "logits";
  c.persistenceThreshold = 0;
  // As much for each as the largest wants.
  c.workspaceBytes = [](OpKind op, const std::vector<Type> &, const std::vector<Type> &,
                        const Attrs &) {
    return op == OpKind::Conv || op == OpKind::ConvGradInput || op == OpKind::ConvGradWeight ? 16384
                                                                                             : 0;
  };
  auto m = parseModule(kModel, "conv.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return std::move(*s);
}

/// Losses of three updates, or the error that ended them.
struct Outcome {
  std::string error;
  std::vector<double> losses;
};

Outcome train(Device device, int world = 1, int stage = 0) {
  RunOptions o;
  o.data = "synthetic:7";
  o.threads = 1;
  auto trainer = Trainer::create(plannedConv(world, stage), std::move(device), o);
  if (!trainer.ok())
    return {trainer.status().str(), {}};
  Outcome out;
  for (int i = 0; i < 3; ++i) {
    auto u = (*trainer)->step();
    if (!u.ok())
      return {u.status().str(), {}};
    out.losses.push_back(u->loss);
  }
  return out;
}

TEST(CudaConv, TrainsLikeRef) {
  for (int world : {1, 2}) {
    std::vector<double> bits;
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(stage);
      Outcome cuda = train(emulatedDevice(), world, stage), ref = train(refDevice(), world, stage);
      ASSERT_EQ(cuda.error, "");
      ASSERT_EQ(ref.error, "");
      for (size_t i = 0; i < ref.losses.size(); ++i)
        EXPECT_NEAR(cuda.losses[i], ref.losses[i], 1e-5 * ref.losses[i]) << i;
      if (stage > 0) {
        EXPECT_EQ(cuda.losses, bits);
      }
      bits = cuda.losses;
    }
  }
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

// The first time it is called, and a later one.
TEST(CudaConv, EachFailingCallEndsTheRun) {
  for (const char *name :
       {"cudnnCreate", "cudnnCreateTensorDescriptor", "cudnnSetTensorNdDescriptorEx",
        "cudnnCreateFilterDescriptor", "cudnnSetFilterNdDescriptor",
        "cudnnCreateConvolutionDescriptor", "cudnnSetConvolutionNdDescriptor",
        "cudnnSetConvolutionGroupCount", "cudnnSetConvolutionMathType",
        "cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
        "cudnnGetConvolutionBackwardFilterAlgorithm_v7", "cudnnGetConvolutionForwardWorkspaceSize",
        "cudnnGetConvolutionBackwardDataWorkspaceSize",
        "cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnSetStream",
        "cudnnConvolutionForward", "cudnnConvolutionBackwardData",
        "cudnnConvolutionBackwardFilter"})
    for (int n : {1, 2}) {
      if (n == 2 && name == std::string("cudnnCreate"))
        continue; // called once
      emulated::failCall(name, n);
      Outcome o = train(emulatedDevice());
      emulated::failCall("", 0);
      EXPECT_THAT(o.error, HasSubstr(std::string(name) + ": CUDNN_STATUS_INTERNAL_ERROR"));
      EXPECT_THAT(o.error, HasSubstr("conv")) << name << ": of which instruction?";
      EXPECT_EQ(emulated::liveAllocations(), 0) << name;
    }
}

// What is freed when the run is over may fail, but not leak.
TEST(CudaConv, FailingEndsLeakNothing) {
  for (const char *name : {"cudnnDestroy", "cudnnDestroyTensorDescriptor",
                           "cudnnDestroyFilterDescriptor", "cudnnDestroyConvolutionDescriptor"}) {
    emulated::failCall(name, 1);
    train(emulatedDevice());
    emulated::failCall("", 0);
    EXPECT_EQ(emulated::liveAllocations(), 0) << name;
  }
}

} // namespace
} // namespace ds::test
