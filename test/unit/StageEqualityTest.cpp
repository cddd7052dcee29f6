// SPDX-License-Identifier: Apache-2.0
//
// The matrix that must not move: one MLP whose element counts are all odd, trained under every stage, world size,
// accumulation, bucket size and overlap. Weights are bit-equal at equal world size (D7), and equal to rounding
// across world sizes.
#include "ir/GraphText.h"
#include "kernels/Registry.h"
#include "passes/Passes.h"
#include "runtime/Trainer.h"
#include "test/unit/RuntimeTestFiles.h"

#include <gtest/gtest.h>

using namespace ds;

namespace {

// Rows per micro-batch are filled in: the global batch stays at 24.
const char *kMlp = R"(module @mlp {
  param @w1 : f32[7,5] init normal(1,0.4)
  param @b1 : f32[5] init normal(2,0.1)
  param @w2 : f32[5,5] init normal(3,0.4)
  param @b2 : f32[5] init normal(4,0.1)
  param @w3 : f32[5,3] init normal(5,0.4)

  func @micro(%x: f32[N,7]) {
  forward:
    %h1.mm = matmul %x, @w1 : f32[N,5]
    %h1.pre = add %h1.mm, @b1 : f32[N,5]
    %h1 = tanh %h1.pre : f32[N,5]
    %h2.mm = matmul %h1, @w2 : f32[N,5]
    %h2.pre = add %h2.mm, @b2 : f32[N,5]
    %h2 = relu %h2.pre : f32[N,5]
    %logits = matmul %h2, @w3 : f32[N,3]
    return %logits
  }
}
)";

struct Trained {
  std::vector<double> weights, losses, norms;
};

PlanConfig baseConfig(const std::string &optimizer) {
  PlanConfig c;
  c.optimizer.type = optimizer;
  c.optimizer.lr = optimizer == "sgd" ? 0.5 : 0.02;
  c.optimizer.momentum = 0.9;
  c.loss.kind = LossConfig::Kind::CrossEntropy;
  c.loss.logits = "logits";
  c.clip = 1.0;
  c.persistenceThreshold = 0;
  c.trainBatch = 24;
  return c;
}

Trained train(PlanConfig c) {
  c.microBatch = 24 / (c.world * c.gradAccum);
  std::string text = kMlp;
  for (size_t at; (at = text.find("[N,")) != std::string::npos;)
    text.replace(at + 1, 1, std::to_string(c.microBatch));
  auto m = parseModule(text, "mlp.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  Device ref{"ref",
             {{"ref", [](const char *op, DType d) { return findKernel(refKernels(), op, d); }}}};
  test::TempDir disk;
  RunOptions o;
  o.data = "synthetic:11";
  o.threads = 1;
  o.nvmePath = disk.path;
  auto t = Trainer::create(std::move(*s), ref, o);
  EXPECT_TRUE(t.ok()) << t.status().str();
  Trained run;
  if (!t.ok())
    return run;
  for (int update = 0; update < 6; ++update) {
    auto r = (*t)->step();
    EXPECT_TRUE(r.ok()) << r.status().str();
    if (!r.ok())
      return run;
    run.losses.push_back(r->loss);
    run.norms.push_back(r->gradNorm);
  }
  for (const char *name : {"w1", "b1", "w2", "b2", "w3"}) {
    auto p = (*t)->readParam(name);
    EXPECT_TRUE(p.ok()) << p.status().str();
    if (p.ok())
      run.weights.insert(run.weights.end(), p->begin(), p->end());
  }
  return run;
}

void expectNear(const Trained &a, const Trained &b, const std::string &what) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i)
    ASSERT_NEAR(a.weights[i], b.weights[i], 2e-6 * std::max(1.0, std::abs(a.weights[i])))
        << what << " weight " << i;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-6) << what << " loss " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 2e-6) << what << " norm " << i;
  }
}

class StageEquality : public ::testing::TestWithParam<const char *> {};

TEST_P(StageEquality, MatrixDoesNotMove) {
  PlanConfig one = baseConfig(GetParam());
  one.world = 1, one.gradAccum = 1;
  Trained reference = train(one);
  EXPECT_LT(reference.losses.back(), reference.losses.front());
  for (int64_t world : {1, 2, 3, 4})
    for (int64_t accum : {1, 2, 4}) {
      if (24 % (world * accum) != 0)
        continue;
      // Under accumulation, stages 0 and 1 add before they reduce, 2 and 3 after.
      std::optional<Trained> early, late;
      for (int64_t stage : {0, 1, 2, 3})
        for (int64_t bucket : {int64_t(500'000'000), int64_t(7), int64_t(1)})
          for (bool overlap : {true, false}) {
            PlanConfig c = baseConfig(GetParam());
            c.stage = stage, c.world = world, c.gradAccum = accum;
            c.reduceBucketSize = bucket, c.overlap = overlap;
            std::string what = "stage " + std::to_string(stage) + " world " +
                               std::to_string(world) + " accum " + std::to_string(accum) +
                               " bucket " + std::to_string(bucket) + (overlap ? " overlap" : "");
            Trained r = train(c);
            std::optional<Trained> &same = accum > 1 && stage >= 2 ? late : early;
            if (!same)
              same = r;
            EXPECT_EQ(same->weights, r.weights) << what;
            EXPECT_EQ(same->losses, r.losses) << what;
            EXPECT_EQ(same->norms, r.norms) << what;
            expectNear(reference, r, what);
          }
    }
}

// With --reduce every all four stages are bit-identical under accumulation too.
TEST_P(StageEquality, ReduceEvery) {
  std::optional<Trained> first;
  for (int64_t stage : {0, 1, 2, 3}) {
    PlanConfig c = baseConfig(GetParam());
    c.stage = stage, c.world = 2, c.gradAccum = 4, c.reduce = "every";
    Trained r = train(c);
    if (!first)
      first = r;
    EXPECT_EQ(first->weights, r.weights) << "stage " << stage;
  }
}

// Nor do the host's optimizers, wherever they read from, running on into the next update or not.
TEST_P(StageEquality, OffloadChangesNothing) {
  struct Way {
    const char *states, *params, *carry;
  };
  for (int64_t stage : {0, 2, 3})
    for (int64_t accum : {1, 2}) {
      PlanConfig c = baseConfig(GetParam());
      c.stage = stage, c.world = stage == 0 ? 1 : 2, c.gradAccum = accum;
      c.reduceBucketSize = 7;
      Trained plain = train(c);
      for (Way w : {Way{"cpu", "", "on"}, {"cpu", "", "off"}, {"nvme", "nvme", "on"}}) {
        c.offloadOptimizer = w.states;
        c.offloadParam = stage == 2 ? "" : w.params;
        c.carry = w.carry;
        std::string what = "stage " + std::to_string(stage) + " accum " + std::to_string(accum) +
                           " on " + w.states + ", carry " + w.carry;
        Trained r = train(c);
        EXPECT_EQ(plain.weights, r.weights) << what;
        EXPECT_EQ(plain.losses, r.losses) << what;
        EXPECT_EQ(plain.norms, r.norms) << what;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StageEquality, ::testing::Values("sgd", "adamw"));

} // namespace
