// SPDX-License-Identifier: Apache-2.0
//
// Host updates that run on into the next update: what goes wrong in them ends the run, at the latest when it ends by itself, and
// what reads weights or states meanwhile waits for them.
#include "ir/GraphText.h"
#include "passes/Passes.h"
#include "runtime/Trainer.h"
#include "test/unit/RuntimeModel.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace ds;
using namespace ds::test;

namespace {

const char *kModel = R"(module @two {
  param @w1 : f32[7,5] init normal(1,0.4)
  param @w2 : f32[5,3] init normal(2,0.4)

  func @micro(%x: f32[4,7]) {
  forward:
    %h = matmul %x, @w1 : f32[4,5]
    %o = matmul %h, @w2 : f32[4,3]
    return %o
  }
}
)";

Schedule planned(const char *carry) {
  PlanConfig c;
  c.stage = 2, c.world = 2, c.gradAccum = 1, c.microBatch = 4, c.trainBatch = 8;
  c.reduceBucketSize = 1; // a bucket for each parameter
  c.optimizer.type = "adamw";
  c.loss.kind = LossConfig::Kind::Mse;
  c.loss.logits = "o";
  c.offloadOptimizer = "cpu";
  c.carry = carry;
  auto m = parseModule(kModel, "two.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return *s;
}

std::atomic<int> adamsLeft; // that do not fail
DsRunFn refAdam;

const char *slowAdam(const DsLaunch *l, void *state) {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return adamsLeft-- > 0 ? refAdam(l, state) : "the host is out of order";
}

Device slowDevice() {
  static DsKernel slow;
  Device ref = refDevice();
  auto find = ref.kernels[0].find;
  slow = *find("adam", DType::F32);
  refAdam = slow.run;
  slow.run = slowAdam;
  ref.kernels[0].find = [find](const char *op, DType first) {
    return std::string_view(op) == "adam" ? &slow : find(op, first);
  };
  return ref;
}

std::unique_ptr<Trainer> started(const char *carry, int adams) {
  adamsLeft = adams;
  RunOptions o;
  o.data = "synthetic:3";
  o.threads = 1;
  auto t = Trainer::create(planned(carry), slowDevice(), o);
  EXPECT_TRUE(t.ok()) << t.status().str();
  return std::move(*t);
}

// Two ranks with two buckets each: four launches an update.
TEST(RuntimeCarry, AnErrorBehindTheLastStepIsTold) {
  auto t = started("on", 11);
  for (int u = 0; u < 3; ++u)
    ASSERT_TRUE(t->step().ok());
  Status end = t->finish(); // update 3 has a launch left to fail
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.str(), testing::HasSubstr("update 3: update: "));
  EXPECT_THAT(end.str(), testing::HasSubstr("(adam): the host is out of order"));
  EXPECT_FALSE(t->step().ok());
  EXPECT_FALSE(t->saveCheckpoint(testing::TempDir()).ok());
  EXPECT_FALSE(t->saveModel(testing::TempDir() + "none.safetensors").ok());
}

TEST(RuntimeCarry, TheNextStepFailsWithIt) {
  auto t = started("on", 5);
  Status end;
  int steps = 0;
  for (; steps < 10 && end.ok(); ++steps)
    end = t->step().status();
  EXPECT_THAT(end.str(), testing::HasSubstr("update 2: update: "));
  EXPECT_LE(steps, 3);
}

TEST(RuntimeCarry, ReadersWaitForIt) {
  auto on = started("on", 1000), off = started("off", 1000);
  for (int u = 0; u < 3; ++u) {
    ASSERT_TRUE(on->step().ok());
    ASSERT_TRUE(off->step().ok());
    for (const char *p : {"w1", "w2"})
      EXPECT_EQ(*on->readParam(p), *off->readParam(p)) << "update " << u;
    int states = 0;
    for (const Buffer &b : on->schedule().persistent)
      for (int rank = 0; rank < 2 && b.kind == BufferKind::State; ++rank, ++states)
        EXPECT_TRUE(*on->readBuffer(b.name, rank) == *off->readBuffer(b.name, rank)) << b.name;
    EXPECT_EQ(states, 12); // two moments and the host's weights
  }
  EXPECT_TRUE(on->finish().ok());
}

} // namespace
