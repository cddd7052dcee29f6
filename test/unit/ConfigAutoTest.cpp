// SPDX-License-Identifier: Apache-2.0
//
// "auto", with the config that Hugging Face's documentation gives for stage 3, and who said what about a batch.
#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

// fp16 and bf16 left out; otherwise as in "DeepSpeed Integration" of the Transformers documentation.
constexpr const char *kTrainer = R"({
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
    "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
    "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": true},
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": false})";

ConfigOverrides flags(bool assume) {
  ConfigOverrides o;
  o.assume = assume;
  o.world = 2;
  o.microBatch = 4;
  return o;
}

StatusOr<PlanConfig> read(const std::string &text, const ConfigOverrides &o) {
  return parseConfig(text, "ds.json", o);
}

std::string errors(const std::string &text, const ConfigOverrides &o) {
  return read(text, o).status().str();
}

} // namespace

TEST(ConfigAuto, WhatTheRunMustKnowIsAskedFor) {
  std::string text = errors(kTrainer, flags(false));
  EXPECT_THAT(text,
              HasSubstr("optimizer.params.lr is \"auto\": write the learning rate, or give --lr"));
  EXPECT_THAT(
      text,
      HasSubstr("scheduler.params.warmup_num_steps is \"auto\": write the number of updates"));
  EXPECT_THAT(text, HasSubstr("total_num_steps is missing or \"auto\"; WarmupDecayLR needs the "
                              "number of updates, or dsexec --steps"));
  EXPECT_THAT(text, Not(HasSubstr("batch")));
}

TEST(ConfigAuto, FlagsAnswer) {
  ConfigOverrides o = flags(false);
  o.lr = 5e-5;
  o.updates = 900;
  o.set = {{"warmup_num_steps", "100"}};
  StatusOr<PlanConfig> c = read(kTrainer, o);
  ASSERT_TRUE(c.ok()) << c.status().str();
  EXPECT_EQ(c->optimizer.lr, 5e-5);
  EXPECT_EQ(c->scheduler.maxLr, 5e-5); // not WarmupDecayLR's own default, 0.001
  EXPECT_EQ(c->scheduler.totalSteps, 900);
  EXPECT_EQ(c->scheduler.warmupSteps, 100);
  EXPECT_EQ(c->trainBatch, 8);
  EXPECT_EQ(c->gradAccum, 1);
  EXPECT_EQ(c->source["optimizer.params.lr"], "--lr");
  EXPECT_EQ(c->source["scheduler.params.total_num_steps"], "derived: --steps");
  for (const std::string &a : c->assumptions) // a flag is no assumption
    EXPECT_THAT(a, Not(HasSubstr("params.lr is"))) << a;
  EXPECT_THAT(c->assumptions, Contains("optimizer.params.betas[1] is \"auto\": 0.999"));
}

TEST(ConfigAuto, TheModelAnswersAsTheTrainerDoes) {
  ConfigOverrides o = flags(true);
  o.set = {{"total_num_steps", "900"}};
  StatusOr<PlanConfig> c = read(kTrainer, o);
  ASSERT_TRUE(c.ok()) << c.status().str();
  EXPECT_THAT(c->assumptions, Contains("optimizer.params.lr is \"auto\": 0.001"));
  PlanConfig known = *c;
  ASSERT_TRUE(resolveAutos(known, 768).ok());
  EXPECT_EQ(known.reduceBucketSize, 768 * 768);
  EXPECT_EQ(known.prefetchBucketSize, 530841); // int(0.9 * 768 * 768)
  EXPECT_EQ(known.persistenceThreshold, 7680);
  EXPECT_THAT(
      known.assumptions,
      Contains(
          "zero_optimization.reduce_bucket_size is \"auto\": 589824, hidden size squared (768)"));
  EXPECT_THAT(known.autos, IsEmpty());

  std::string text = printConfig(known); // is a config again, without any auto
  StatusOr<PlanConfig> again = read(text, {});
  ASSERT_TRUE(again.ok()) << again.status().str() << text;
  for (const ConfigKey &k : configTable())
    EXPECT_EQ(k.json(*again), k.json(known)) << k.path;
  EXPECT_THAT(
      text,
      HasSubstr("\"reduce_bucket_size\": 589824, // derived: hidden size squared, which is 768"));

  Status s = resolveAutos(*c, 0);
  EXPECT_THAT(
      s.str(),
      HasSubstr(
          "zero_optimization.stage3_prefetch_bucket_size is \"auto\", and the model does not show "
          "its hidden size; write 0.9 x hidden size squared, or 50000000, DeepSpeed's default"));
  EXPECT_EQ(s.entries().size(), 3u);
}

TEST(ConfigAuto, KeysOfAnotherStageNeedNoAnswer) {
  StatusOr<PlanConfig> c = read(
      R"({"zero_optimization": {"stage": 2, "stage3_prefetch_bucket_size": "auto"}})", flags(true));
  ASSERT_TRUE(c.ok());
  EXPECT_TRUE(resolveAutos(*c, 0).ok());
  EXPECT_THAT(c->noEffect,
              Contains(HasSubstr("stage3_prefetch_bucket_size: it matters at stage 3 only")));
  EXPECT_THAT(
      errors(R"({"optimizer": {"type": "sgd"}, "zero_optimization": {"stage": "auto"}})",
             flags(false)),
      HasSubstr("zero_optimization.stage is \"auto\": write 0, 1, 2 or 3, or give --stage"));
}

TEST(ConfigBatch, ErrorsSayWhoGaveWhat) {
  ConfigOverrides o;
  o.world = 2;
  std::string text = errors(R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4})", o);
  EXPECT_THAT(text,
              HasSubstr("ds.json:1:22: error: train_batch_size is 10, which is not a multiple of"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "note: given: train_batch_size 10 (ds.json:1:22), train_micro_batch_size_per_gpu 4 "
          "(ds.json:1:60), world size 2 (--world-size); not given: gradient_accumulation_steps\n"));
  o.world.reset();
  o.assume = false;
  text = errors(
      R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2})",
      o);
  EXPECT_THAT(text, HasSubstr("or the world size to 4"));
  EXPECT_THAT(text, HasSubstr("not given: world size, which is 1 then; --world-size N sets it"));
}

TEST(ConfigKeys, DeepSpeedsFieldNamesAreTaken) {
  StatusOr<PlanConfig> c = read(
      R"({"zero_optimization": {"stage": 3, "prefetch_bucket_size": 7, "max_live_parameters": 1e9,
    "param_persistence_threshold": "auto"}})",
      flags(true));
  ASSERT_TRUE(c.ok()) << c.status().str();
  EXPECT_EQ(c->prefetchBucketSize, 7);
  EXPECT_THAT(c->autos, Contains("zero_optimization.stage3_param_persistence_threshold"));
  EXPECT_THAT(c->noEffect, Contains(HasSubstr("zero_optimization.stage3_max_live_parameters: ")));
  EXPECT_THAT(
      errors(
          R"({"zero_optimization": {"prefetch_bucket_size": 7, "stage3_prefetch_bucket_size": 8}})",
          flags(true)),
      HasSubstr("stage3_prefetch_bucket_size is given twice, first at ds.json:1:48"));
}

TEST(ConfigKeys, WholeNumbersMayHaveExponents) {
  for (const ConfigKey &k : configTable())
    if (std::holds_alternative<IntField>(k.field) && std::get<IntField>(k.field).max > 1000) {
      PlanConfig c;
      EXPECT_TRUE(setConfigValue(c, k, {ConfigText::Kind::Number, "2e2", "2e2"}, k.path).ok())
          << k.path;
      EXPECT_EQ(k.json(c), "200") << k.path;
    }
  for (const OtherConfigKey &k : otherConfigTable())
    if (k.kind == OtherConfigKey::Kind::Ignored && std::string_view(k.arg) == "int") {
      PlanConfig c;
      EXPECT_TRUE(k.take(c, {ConfigText::Kind::Number, "5e8", "5e8"}).ok()) << k.path;
      EXPECT_FALSE(k.take(c, {ConfigText::Kind::Number, "0.5", "0.5"}).ok()) << k.path;
    }
}

TEST(ConfigKeys, StepsPerPrintMayBeNever) {
  StatusOr<PlanConfig> c = read(R"({"steps_per_print": null})", flags(true));
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->stepsPerPrint, 0);
  EXPECT_THAT(printConfig(*c), HasSubstr("\"steps_per_print\": null, // ds.json"));
}
