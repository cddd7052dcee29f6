// SPDX-License-Identifier: Apache-2.0
//
// The configs with which DeepSpeed introduces itself, in their original spelling, at every number of ranks that
// their batch sizes allow.
#include "frontend/ConfigFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr const char *kStage2 = R"({
  "train_batch_size": 16,
  "gradient_accumulation_steps": 4,
  "optimizer": { "type": "AdamW", "params": { "lr": 1e-4 } },
  "fp16": { "enabled": true },
  "zero_optimization": { "stage": 2 },
  "zero_allow_untested_optimizer": true
})";

constexpr const char *kOffload = R"({
  "train_batch_size": 32,
  "gradient_accumulation_steps": 4,
  "fp16": { "enabled": true },
  "zero_optimization": { "stage": 2, "offload_optimizer": { "device": "cpu" } },
  "optimizer": {
    "type": "AdamW",
    "params": { "lr": 3e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01 }
  },
  "scheduler": {
    "type": "WarmupLR",
    "params": { "warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 1000 }
  }
})";

constexpr const char *kStage3 = R"({
  "train_batch_size": 8,
  "gradient_accumulation_steps": 8,
  "fp16": { "enabled": true },
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": { "device": "cpu", "pin_memory": true },
    "offload_param": { "device": "cpu", "pin_memory": true },
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "stage3_prefetch_bucket_size": 5e8,
    "stage3_param_persistence_threshold": 1e6
  }
})";

StatusOr<PlanConfig> read(const std::string &text, int64_t world) {
  ConfigOverrides o;
  o.world = world;
  return parseConfig(text, "ds.json", o);
}

// The worlds up to 64 at which the config is accepted; elsewhere the error must be about the batch.
std::vector<int64_t> worlds(const std::string &text) {
  std::vector<int64_t> all;
  for (int64_t world = 1; world <= 64; ++world) {
    StatusOr<PlanConfig> c = read(text, world);
    if (!c.ok()) {
      EXPECT_THAT(c.status().str(),
                  HasSubstr("is not a multiple of gradient_accumulation_steps x world size"));
      continue;
    }
    all.push_back(world);
    EXPECT_EQ(c->microBatch * c->gradAccum * world, c->trainBatch);
  }
  return all;
}

// Everything that is refused.
std::vector<std::string> refused(const std::string &text) {
  std::vector<std::string> paths;
  StatusOr<PlanConfig> c = read(text, 1);
  if (c.ok())
    return paths;
  for (const ErrorEntry &e : c.status().entries())
    paths.push_back(e.text.substr(0, e.text.find(' ')));
  return paths;
}

} // namespace

TEST(ConfigIntro, StageTwo) {
  EXPECT_THAT(worlds(kStage2), ElementsAre(1, 2, 4));
  EXPECT_THAT(refused(kStage2), ElementsAre());
  PlanConfig c = *read(kStage2, 2);
  EXPECT_EQ(c.stage, 2);
  EXPECT_TRUE(c.precision.fp16 && c.precision.isDynamic());
  EXPECT_EQ(c.microBatch, 2);
  EXPECT_EQ(c.optimizer.type, "adamw");
  EXPECT_EQ(c.optimizer.lr, 1e-4);
  EXPECT_THAT(c.noEffect, ElementsAre(HasSubstr("zero_allow_untested_optimizer: ")));
  EXPECT_THAT(
      read(kStage2, 8).status().str(),
      HasSubstr(
          "train_batch_size is 16, which is not a multiple of gradient_accumulation_steps x world "
          "size = 4 x 8 = 32; the nearest is 32"));
}

TEST(ConfigIntro, OptimizerOffload) {
  EXPECT_THAT(worlds(kOffload), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(refused(kOffload), ElementsAre());
  PlanConfig c = *read(kOffload, 8);
  EXPECT_EQ(c.offloadOptimizer, "cpu");
  EXPECT_EQ(c.microBatch, 1);
  EXPECT_EQ(c.optimizer.lr, 3e-5);
  EXPECT_EQ(c.optimizer.beta1, 0.9);
  EXPECT_EQ(c.optimizer.beta2, 0.999);
  EXPECT_EQ(c.optimizer.eps, 1e-8);
  EXPECT_EQ(c.optimizer.weightDecay, 0.01);
  EXPECT_EQ(c.scheduler.type, "WarmupLR");
  EXPECT_EQ(c.scheduler.maxLr, 3e-5);
  EXPECT_EQ(c.scheduler.warmupSteps, 1000);
}

TEST(ConfigIntro, StageThreeWithBothOffloads) {
  EXPECT_THAT(worlds(kStage3), ElementsAre(1));
  EXPECT_THAT(refused(kStage3), ElementsAre());
  PlanConfig c = *read(kStage3, 1);
  EXPECT_EQ(c.offloadOptimizer, "cpu");
  EXPECT_EQ(c.offloadParam, "cpu");
  EXPECT_EQ(c.stage, 3);
  EXPECT_EQ(c.microBatch, 1);
  EXPECT_EQ(c.prefetchBucketSize, 500'000'000);
  EXPECT_EQ(c.persistenceThreshold, 1'000'000);
  EXPECT_THAT(c.noEffect, Contains(HasSubstr("zero_optimization.stage3_max_live_parameters: ")));
  EXPECT_THAT(c.noEffect, Contains(HasSubstr("zero_optimization.stage3_max_reuse_distance: ")));
  EXPECT_TRUE(pinsHost(c));
  // No optimizer: the planner assumes one and says so, a run must be told.
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("optimizer AdamW")));
  ConfigOverrides run;
  run.assume = false;
  EXPECT_THAT(parseConfig(kStage3, "ds.json", run).status().str(),
              HasSubstr("no optimizer is given"));
  run.optimizer = "adamw";
  EXPECT_TRUE(parseConfig(kStage3, "ds.json", run).ok());
}
