// SPDX-License-Identifier: Apache-2.0
#include "test/unit/DamageBases.h"

#include "ir/GraphText.h"
#include "passes/Passes.h"
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

namespace ds {

// A matrix used twice, and a frozen one; its products have workspaces.
static const char *kTied = R"(module @tied {
  param @e : f32[16,16] init normal(1,0.4)
  param @f : f32[16,16] init normal(2,0.4)
  param @g : f32[16] init normal(3,0.1)

  func @micro(%x: f32[4,16]) {
  forward:
    %a = matmul %x, @e : f32[4,16]
    %b = matmul %a, @f : f32[4,16]
    %c = mul %b, @g : f32[4,16]
    %d = tanh %c : f32[4,16]
    %logits = matmul %d, @e {trans_b} : f32[4,16]
    return %logits
  }
}
)";

std::string Base::str() const {
  return std::string(tied ? "tied" : "mlp") + " stage " + std::to_string(stage) + " accum " +
         std::to_string(gradAccum) + " world " + std::to_string(world) +
         (overlap ? "" : " no overlap") + (carry ? " carry" : "") + (adam ? " adamw" : " sgd") +
         (half ? " bf16" : "") + (optimizer ? " optimizer on host" : "") +
         (param ? " parameters on host" : "") + (nvme ? " or nvme" : "") +
         (slices ? " in slices" : "");
}

Schedule planned(const Base &b) {
  PlanConfig c;
  c.stage = b.stage;
  c.world = b.world;
  c.microBatch = 4;
  c.gradAccum = b.gradAccum;
  c.trainBatch = c.world * c.microBatch * c.gradAccum;
  c.optimizer.type = b.adam ? "adamw" : "sgd";
  c.loss.kind = LossConfig::Kind::CrossEntropy;
  c.loss.logits = "logits";
  c.persistenceThreshold = b.adam ? 0 : 64;
  c.reduceBucketSize = c.allgatherBucketSize = 1024; // several buckets
  c.overlap = b.overlap;
  c.carry = b.carry ? "on" : "off";
  c.precision.bf16 = b.half;
  const char *where = b.nvme ? "nvme" : "cpu";
  c.offloadOptimizer = b.optimizer ? where : "";
  c.offloadParam = b.param ? where : "";
  if (b.slices) {
    c.subGroupSize = 256; // on nvme whole blocks
    c.offloadBuffers = b.nvme ? 3 : 2;
    c.reduceBucketSize = c.allgatherBucketSize = b.nvme ? 4096 : 1024;
  }
  if (b.tied) {
    c.freeze = "f";
    c.workspaceBytes = [](OpKind op, const std::vector<Type> &, const std::vector<Type> &,
                          const Attrs &) { return op == OpKind::Matmul ? 512 : 0; };
  }
  auto m = parseModule(b.tied ? kTied : kDamageMlp, "base.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return std::move(*s);
}

} // namespace ds
