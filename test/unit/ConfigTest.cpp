// SPDX-License-Identifier: Apache-2.0
//
// The config reader: values, defaults, what is refused and how it is said. Cases 11 and 12 are among them.
#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

using namespace ds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

// A config that is complete but for what the test adds before it.
constexpr const char *kRest = R"("train_micro_batch_size_per_gpu": 1, "dsplan": {"world_size": 2},
  "optimizer": {"type": "AdamW"}})";

PlanConfig read(const std::string &text, const ConfigOverrides &o = {}) {
  StatusOr<PlanConfig> c = parseConfig(text, "ds.json", o);
  EXPECT_TRUE(c.ok()) << text << "\n" << c.status().str();
  return c.ok() ? *c : PlanConfig();
}

std::string errors(const std::string &text, const ConfigOverrides &o = {}) {
  StatusOr<PlanConfig> c = parseConfig(text, "ds.json", o);
  return c.ok() ? "" : c.status().str();
}

ConfigOverrides world(int64_t n) {
  ConfigOverrides o;
  o.world = n;
  return o;
}

} // namespace

TEST(Config, ReadsEveryKindOfValue) {
  PlanConfig c = read(R"({ // comments and trailing commas are fine
    "train_batch_size": 16, # as is this one
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"params": {"lr": 2e-4, "betas": [0.8, 0.95], "weight_decay": 1}, "type": "adam"},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.5, "warmup_num_steps": 4,
                                                 "warmup_type": "linear"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 1e6, "overlap_comm": false,
                          "stage3_param_persistence_threshold": 5.12e2,},
    "gradient_clipping": 0, /* off */
    "dsplan": {"world_size": 4, "loss": "ce:logits=a/b.c,labels=y,shift=1", "dtype": "f64"},
  })");
  EXPECT_EQ(c.trainBatch, 16);
  EXPECT_EQ(c.gradAccum, 2);
  EXPECT_EQ(c.optimizer.type, "adam");
  EXPECT_EQ(c.optimizer.lr, 2e-4);
  EXPECT_EQ(c.optimizer.beta1, 0.8);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.optimizer.weightDecay, 1);
  EXPECT_EQ(c.scheduler.maxLr, 0.5);
  EXPECT_FALSE(c.scheduler.logWarmup);
  EXPECT_EQ(c.stage, 3);
  EXPECT_EQ(c.reduceBucketSize, 1'000'000);
  EXPECT_FALSE(c.overlap);
  EXPECT_EQ(c.persistenceThreshold, 512);
  EXPECT_EQ(c.clip, 0);
  EXPECT_EQ(c.world, 4);
  EXPECT_EQ(c.loss.logits, "a/b.c");
  EXPECT_EQ(c.loss.shift, 1);
  EXPECT_EQ(c.dtype, "f64");
  EXPECT_THAT(c.noEffect, IsEmpty());
  EXPECT_EQ(c.source["zero_optimization.stage"], "ds.json:7:36");
}

TEST(Config, TableAndStructHaveTheSameDefaults) {
  PlanConfig c;
  for (const ConfigKey &k : configTable())
    EXPECT_EQ(k.json(c), k.dflt) << k.path;
}

TEST(Config, TableHasNoPathOrNameTwice) {
  std::set<std::string> seen;
  for (const ConfigKey &k : configTable()) {
    EXPECT_TRUE(seen.insert(k.path).second) << k.path;
    EXPECT_TRUE(k.path == std::string(k.name) || seen.insert(k.name).second) << k.name;
  }
  for (const OtherConfigKey &k : otherConfigTable())
    EXPECT_TRUE(seen.insert(k.path).second) << k.path;
}

TEST(Config, EveryKeyIsReadFromItsPath) {
  for (const ConfigKey &k : configTable()) {
    PlanConfig c;
    Status s = setConfigValue(c, k, {ConfigText::Kind::Null, "null", "null"}, k.path);
    EXPECT_EQ(s.ok(), k.json(c) == "null" || std::string(k.path).ends_with("overlap_comm"))
        << k.path;
    EXPECT_FALSE(setConfigValue(c, k, {ConfigText::Kind::Object, "on", "an object"}, k.path).ok())
        << k.path;
  }
}

TEST(Config, PrintedConfigReadsBack) {
  PlanConfig c = read(R"({"train_batch_size": 24, "optimizer": {"type": "SGD", "params": {"lr": 0.1,
    "momentum": 0.9}}, "scheduler": {"type": "WarmupLR"}, "zero_optimization": {"stage": 2},
    "dsplan": {"world_size": 3, "loss": "mse:prediction=y,target=t", "freeze": "a\\.\"b"}})");
  std::string text = printConfig(c);
  PlanConfig again = read(text);
  for (const ConfigKey &k : configTable())
    EXPECT_EQ(k.json(again), k.json(c)) << k.path << "\n" << text;
  EXPECT_THAT(text, HasSubstr("\"lr\": 0.1, // ds.json:1:72\n"));
  EXPECT_THAT(text, HasSubstr("\"gradient_accumulation_steps\": 1, // derived: "));
  EXPECT_THAT(text, HasSubstr("\"gradient_clipping\": 1, // default\n"));
  EXPECT_THAT(text, Not(HasSubstr("betas"))); // SGD has none
  text = printConfig(read("{}"));             // without a scheduler
  EXPECT_EQ(errors(text), "") << text;
}

TEST(Config, AutoIsTheDefault) {
  PlanConfig c = read(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": "auto", "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": "auto"}})",
                      world(2));
  EXPECT_EQ(c.trainBatch, 4);
  EXPECT_EQ(c.clip, 1.0);
  EXPECT_EQ(c.optimizer.lr, 1e-3);
  EXPECT_THAT(c.assumptions, Contains("gradient_clipping is \"auto\": 1"));
  EXPECT_THAT(errors(R"({"optimizer": {"type": "auto"}})"),
              HasSubstr("optimizer.type is \"auto\", expected Adam, AdamW or SGD"));
}

TEST(Config, DamagedFilesAreErrorsOrConfigs) {
  const std::string good =
      R"({"train_batch_size": 16, "zero_optimization": {"stage": 3, "offload_param": null},
    "optimizer": {"type": "Adam", "params": {"betas": [0.9, 0.99]}}, "fp16": {"enabled": false}})";
  uint32_t state = 1;
  auto random = [&](size_t n) {
    return (state = state * 1664525u + 1013904223u, (state >> 8) % n);
  };
  size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string text = good;
    for (size_t n = 1 + random(3); n > 0; --n)
      text[random(text.size())] = "{}[]\",:\\x0a-\xff"[random(14)];
    refused += !errors(text).empty();
  }
  EXPECT_GT(refused, 400u);
  EXPECT_EQ(errors(good), "");
}

// -- batch sizes ---------------------------------------------------------------------------------------

TEST(ConfigBatch, Derivations) {
  struct Case {
    int64_t world, train, micro, accum, wantTrain, wantMicro, wantAccum;
  };
  for (auto [w, t, m, a, wt, wm, wa] : {Case{2, 16, 0, 0, 16, 8, 1},
                                        {2, 0, 2, 4, 16, 2, 4},
                                        {2, 0, 2, 0, 4, 2, 1},
                                        {2, 16, 2, 0, 16, 2, 4},
                                        {2, 16, 0, 4, 16, 2, 4},
                                        {2, 16, 2, 4, 16, 2, 4}}) {
    PlanConfig c;
    c.world = w;
    c.trainBatch = t;
    c.microBatch = m;
    c.gradAccum = a;
    Status s = resolveBatch(c);
    ASSERT_TRUE(s.ok()) << s.str();
    EXPECT_EQ(c.trainBatch, wt);
    EXPECT_EQ(c.microBatch, wm);
    EXPECT_EQ(c.gradAccum, wa);
  }
}

TEST(ConfigBatch, ErrorsShowBothSidesAndWhatFits) {
  auto why = [](int64_t world, int64_t train, int64_t micro, int64_t accum) {
    PlanConfig c;
    c.world = world;
    c.trainBatch = train;
    c.microBatch = micro;
    c.gradAccum = accum;
    return resolveBatch(c).str();
  };
  EXPECT_THAT(why(2, 10, 4, 0),
              HasSubstr("is 10, which is not a multiple of train_micro_batch_size_per_gpu "
                        "x world size = 4 x 2 = 8; the nearest are 8 and 16"));
  EXPECT_THAT(why(2, 10, 0, 4), HasSubstr("gradient_accumulation_steps x world size = 4 x 2 = 8"));
  EXPECT_THAT(why(8, 4, 0, 0), HasSubstr("multiple of world size = 8; the nearest is 8"));
  EXPECT_THAT(why(2, 16, 2, 2),
              HasSubstr("= 2 x 2 x 2 = 8; set train_batch_size to 8 or gradient_accumulation_steps "
                        "to 4 or train_micro_batch_size_per_gpu to 4 or the world size to 4, or"));
  EXPECT_THAT(why(2, 0, 0, 4), HasSubstr("no batch size is given"));
  EXPECT_THAT(why(0, 4, 0, 0), HasSubstr("the world size is 0, expected at least 1"));
  EXPECT_THAT(why(-1, 4, 0, 0), HasSubstr("the world size is -1, expected at least 1"));
  EXPECT_THAT(why(4, 0, INT64_MAX, 0), HasSubstr("more than a 64-bit number holds"));
  EXPECT_THAT(why(2, INT64_MAX, 0, 0), HasSubstr("the nearest is 9223372036854775806"));
}

TEST(ConfigBatch, ZeroAndNegativeSizesAreErrors) {
  for (const char *key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})
    for (const char *value : {"0", "-4", "1.5", "\"4\"", "true", "1e400"})
      EXPECT_THAT(
          errors("{\"" + std::string(key) + "\": " + value + "}"),
          HasSubstr(std::string(key) + " is " + value + ", expected an integer of at least 1"));
  EXPECT_THAT(errors("{\"train_batch_size\": 3}", world(2)),
              testing::StartsWith("ds.json:1:22: error: train"));
  EXPECT_THAT(errors("{}", world(0)), HasSubstr("--world-size is '0', expected an integer from 1"));
}

// -- unknown, refused, without effect --------------------------------------------------------------------

TEST(Config, UnknownKeysNameTheirPlaceAndTheNearest) {
  std::string text = errors(R"({"gradient_cliping": 1.0,
    "zero_optimization": {"stage3_max_live_param": 5, "stge": 1},
    "overlap_comm": true, "optimizer": {"type": "AdamW", "params": {"learning_rate": 1}},
    "nothing_like_it": {}})");
  EXPECT_THAT(text, HasSubstr("ds.json:1:2: error: gradient_cliping: unknown key; did you mean "
                              "gradient_clipping?\n  {\"gradient_cliping\": 1.0,\n   ^\n"));
  EXPECT_THAT(text, HasSubstr("did you mean zero_optimization.stage3_max_live_parameters?"));
  EXPECT_THAT(text, HasSubstr("did you mean zero_optimization.stage?"));
  EXPECT_THAT(text,
              HasSubstr("overlap_comm: unknown key; did you mean zero_optimization.overlap_comm?"));
  EXPECT_THAT(text, HasSubstr("optimizer.params.learning_rate: unknown key"));
  EXPECT_THAT(text, HasSubstr("ds.json:4:5: error: nothing_like_it: unknown key\n"));
}

TEST(Config, AllowUnknownAdmitsOnePath) {
  ConfigOverrides o;
  o.allowUnknown = {"mine"};
  PlanConfig c = read(std::string("{\"mine\": {\"a\": [1]}, ") + kRest, o);
  EXPECT_THAT(c.noEffect, Contains("mine: unknown, admitted by --allow-unknown"));
  EXPECT_THAT(errors(std::string("{\"mine2\": 1, ") + kRest, o), HasSubstr("mine2: unknown key"));
}

TEST(Config, KeysWithoutEffectAreListed) {
  PlanConfig c = read(std::string(R"({"wall_clock_breakdown": true, "aio": {"thread_count": 1},
    "zero_optimization": {"stage": 1, "contiguous_gradients": true, "offload_optimizer": {"device": "none"},
                          "stage3_prefetch_bucket_size": 10}, )") +
                      kRest);
  EXPECT_EQ(c.noEffect.size(), 4u);
  EXPECT_THAT(c.noEffect, Contains(HasSubstr("wall_clock_breakdown: ")));
  EXPECT_THAT(c.noEffect, Contains(HasSubstr("zero_optimization.contiguous_gradients: ")));
  EXPECT_THAT(c.noEffect,
              Contains("zero_optimization.stage3_prefetch_bucket_size: it matters at stage 3 "
                       "only, and the stage is 1"));
  EXPECT_THAT(errors(std::string(R"({"wall_clock_breakdown": 3, )") + kRest),
              HasSubstr("wall_clock_breakdown is 3, expected true or false"));
}

TEST(Config, PostponedFeaturesAreRefusedByName) {
  for (const char *text :
       {R"("amp": {"enabled": true, "opt_level": "O1"})", R"("torch_autocast": {"enabled": true})",
        R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true})",
        R"("bf16": {"enabled": true, "bf16_optimizer_states": true})",
        R"("tensor_parallel": {"autotp_size": 2})", R"("pipeline": {"stages": 2})",
        R"("elasticity": {"enabled": true})", R"("compression_training": {"layer_reduction": {}})",
        R"("sparse_attention": {"mode": "fixed"})", R"("data_efficiency": {"enabled": true})",
        R"("gradient_allreduce_op": "sum")",
        R"("zero_optimization": {"offload_optimizer": {"super_offload": true}})",
        R"("aio": {"use_gds": true})", R"("zero_optimization": {"zero_hpz_partition_size": 2})",
        R"("zero_optimization": {"zero_quantized_weights": true})",
        R"("zero_optimization": {"zenflow": {"topk_ratio": 0.1}})"})
    EXPECT_THAT(errors(std::string("{") + text + ", " + kRest), HasSubstr("not supported: "))
        << text;
  read(std::string(
           R"({"fp16": {"enabled": false, "loss_scale": 0}, "amp": {"enabled": false, "x": 1},
    "pipeline": {}, "communication_data_type": "fp32", "elasticity": null,
    "zero_optimization": {"offload_param": null, "zero_hpz_partition_size": 1.0}, )") +
       kRest);
}

TEST(Config, ActivationCheckpointingMeansAuto) {
  const std::string rest = std::string(", ") + kRest;
  PlanConfig c = read(R"({"activation_checkpointing": {"partition_activations": true,
    "contiguous_memory_optimization": true, "number_checkpoints": 4, "profile": true,
    "cpu_checkpointing": false, "synchronize_checkpoint_boundary": false})" +
                      rest);
  EXPECT_EQ(c.recompute, "auto");
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("recompute auto, since activation_checkpointing")));
  EXPECT_THAT(c.noEffect, Contains(HasSubstr("activation_checkpointing.partition_activations: ")));
  EXPECT_EQ(read(R"({"activation_checkpointing": null)" + rest).recompute, "");
  EXPECT_EQ(c.offloadActivations, "");
  c = read(R"({"activation_checkpointing": {"cpu_checkpointing": true})" + rest);
  EXPECT_EQ(c.offloadActivations, ".");
  ConfigOverrides o;
  o.recompute = "layers";
  EXPECT_EQ(read(R"({"activation_checkpointing": {})" + rest, o).recompute, "layers");
}

TEST(Config, Precision) {
  auto with = [](const std::string &text) { return "{" + text + ", " + kRest; };
  PlanConfig c =
      read(with(R"("fp16": {"enabled": true, "initial_scale_power": 12, "hysteresis": 1})"));
  EXPECT_TRUE(c.precision.fp16 && c.precision.isDynamic() && c.precision.isHalf());
  EXPECT_EQ(c.precision.initialScalePower, 12);
  EXPECT_EQ(c.precision.hysteresis, 1);
  EXPECT_EQ(c.precision.window, 1000);
  EXPECT_EQ(c.precision.type(), DType::F16);
  c = read(with(R"("fp16": {"enabled": true, "loss_scale": 128, "hysteresis": 1})"));
  EXPECT_FALSE(c.precision.isDynamic());
  EXPECT_THAT(c.noEffect, Contains("fp16.hysteresis: fp16.loss_scale is fixed"));
  c = read(with(R"("fp16": {"enabled": false, "loss_scale_window": 1000})"));
  EXPECT_FALSE(c.precision.isHalf());
  EXPECT_THAT(c.noEffect, Contains("fp16.loss_scale_window: fp16 is off"));
  EXPECT_TRUE(read(with(R"("bfloat16": {"enabled": true})")).precision.bf16);
  EXPECT_TRUE(
      read(with(R"("bf16": {"enabled": true}, "communication_data_type": "fp32")")).precision.bf16);

  EXPECT_THAT(errors(with(R"("bf16": {"enabled": true}, "bfloat16": {"enabled": true})")),
              HasSubstr("bf16.enabled is given twice"));
  EXPECT_THAT(errors(with(R"("bf16": {"enabled": true}, "fp16": {"enabled": true})")),
              HasSubstr("fp16.enabled and bf16.enabled are both true; choose one"));
  EXPECT_THAT(
      errors(R"({"bf16": {"enabled": true}, "dsplan": {"dtype": "f64"}, "train_batch_size": 1})"),
      HasSubstr("dsplan.dtype is f64, but bf16.enabled is true; leave one out"));
  EXPECT_THAT(errors(with(R"("bf16": {"enabled": true}, "communication_data_type": "fp16")")),
              HasSubstr("communication_data_type is fp16, expected fp32 or bf16"));
  EXPECT_THAT(errors(with(R"("communication_data_type": "fp16")")),
              HasSubstr("communication_data_type is fp16, expected fp32 or null"));
  EXPECT_THAT(errors(with(R"("fp16": {"enabled": true, "min_loss_scale": 0})")),
              HasSubstr("fp16.min_loss_scale is 0, expected a number above 0"));
}

TEST(Config, StageIsOneOfFour) {
  EXPECT_THAT(
      errors(std::string(R"({"zero_optimization": {"stage": 4}, )") + kRest),
      HasSubstr(
          "ds.json:1:33: error: zero_optimization.stage is 4, expected an integer from 0 to 3"));
  PlanConfig c = read(std::string(R"({"zero_optimization": true, )") + kRest);
  EXPECT_EQ(c.stage, 1);
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("an old form of {\"stage\": 1}")));
}

// -- optimizer and scheduler --------------------------------------------------------------------------------

TEST(Config, OptimizerParametersFitItsType) {
  auto why = [](const std::string &optimizer) {
    return errors("{\"train_batch_size\": 8, \"optimizer\": " + optimizer + "}", world(1));
  };
  EXPECT_EQ(why(R"({"type": "sgd", "params": {"momentum": 0.9, "nesterov": true}})"), "");
  EXPECT_THAT(
      why(R"({"params": {"betas": [0.9, 0.99]}, "type": "SGD"})"),
      HasSubstr("optimizer.params.betas[0]: sgd has no such parameter; it has lr, weight_decay, "
                "momentum, dampening, nesterov"));
  EXPECT_THAT(
      why(R"({"type": "Adam", "params": {"bettas": [0.9, 0.99]}})"),
      HasSubstr("optimizer.params.bettas: unknown key; did you mean optimizer.params.betas?"));
  EXPECT_THAT(why(R"({"type": "Adam", "params": {"betas": [0.9]}})"),
              HasSubstr("optimizer.params.betas is an array, expected an array of 2 numbers"));
  EXPECT_THAT(
      why(R"({"type": "Adam", "params": {"betas": [0.9, 1]}})"),
      HasSubstr("optimizer.params.betas[1] is 1, expected a number of at least 0 and less than 1"));
  EXPECT_THAT(why(R"({"type": "Adam", "params": {"max_grad_norm": 1}})"),
              HasSubstr("gradient_clipping"));
  EXPECT_THAT(why(R"({"type": "Adam", "params": {"amsgrad": true}})"), HasSubstr("not supported"));
  EXPECT_THAT(
      why(R"({"type": "Lamb", "params": {"max_coeff": 1}})"),
      HasSubstr("optimizer.type is \"Lamb\", expected Adam, AdamW or SGD; it is not supported"));
  EXPECT_THAT(why(R"({"params": {"lr": 1}})"),
              HasSubstr("ds.json:1:25: error: optimizer.type is missing"));
  EXPECT_THAT(why(R"({"type": "SGD", "params": {"nesterov": true}})"),
              HasSubstr("needs optimizer.params.momentum"));
  EXPECT_THAT(why(R"({"type": "SGD", "params": {"dampening": 0.1}})"),
              HasSubstr("expected 0: dampening"));
}

TEST(Config, WarmupNeedsAPositiveLength) {
  auto text = [](const std::string &params) {
    return R"({"scheduler": {"type": "WarmupLR", "params": {)" + params + "}}, " + kRest;
  };
  EXPECT_THAT(errors(text(R"("warmup_num_steps": 0)")),
              HasSubstr("expected an integer of at least 1"));
  EXPECT_THAT(errors(text(R"("warmup_num_steps": -3)")),
              HasSubstr("expected an integer of at least 1"));
  EXPECT_THAT(errors(text(R"("warmup_type": "cosine")")),
              HasSubstr("is \"cosine\", expected log or linear"));
  PlanConfig c = read(text(R"("warmup_num_steps": 1)"));
  EXPECT_EQ(c.scheduler.maxLr, c.optimizer.lr);
  EXPECT_THAT(c.assumptions,
              Contains(HasSubstr("warmup_max_lr is not given: the optimizer's lr, 0.001")));
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("counts as 2")));
  EXPECT_THAT(
      errors(std::string(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1}}, )") +
             kRest),
      HasSubstr("scheduler.type is \"OneCycle\", expected WarmupLR, WarmupDecayLR or "
                "WarmupCosineLR; it is not supported"));
  EXPECT_THAT(errors(std::string(R"({"scheduler": {"params": {"warmup_min_lr": 1}}, )") + kRest),
              HasSubstr("scheduler.type is missing"));
}

// -- flags -------------------------------------------------------------------------------------------------

TEST(ConfigFlags, FillWhatIsMissingAndMayNotContradict) {
  const std::string text =
      R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}})";
  ConfigOverrides o = world(4);
  o.lr = 0.001;
  o.optimizer = "adamw";
  o.gradAccum = 3;
  PlanConfig c = read(text, o);
  EXPECT_EQ(c.trainBatch, 24);
  EXPECT_EQ(c.source["dsplan.world_size"], "--world-size");
  o.stage = 2;
  o.lr = 0.5;
  EXPECT_THAT(errors(text, o),
              HasSubstr("--stage 2 contradicts zero_optimization.stage = 3 in ds.json:1:70"));
  EXPECT_THAT(errors(text, o),
              HasSubstr("--lr 0.5 contradicts optimizer.params.lr = 0.001 in ds.json:2:53"));
  ConfigOverrides set = world(4);
  set.set = {{"stage", "1"}, {"zero_optimization.stage", "2"}, {"eps", "1e-6"}};
  c = read(text, set);
  EXPECT_EQ(c.stage, 2);
  EXPECT_EQ(c.optimizer.eps, 1e-6);
  set.set = {{"stagee", "1"}};
  EXPECT_THAT(errors(text, set),
              HasSubstr("--set stagee=1: error: unknown key 'stagee'; did you mean 'stage'?"));
}

TEST(ConfigFlags, WithoutAFileEveryAssumptionIsSaid) {
  ConfigOverrides o;
  o.stage = 3;
  StatusOr<PlanConfig> c = readConfig("", o);
  ASSERT_TRUE(c.ok()) << c.status().str();
  EXPECT_EQ(c->optimizer.type, "adamw");
  EXPECT_EQ(c->microBatch, 1);
  EXPECT_EQ(c->world, 8);
  EXPECT_EQ(c->assumptions.size(), 3u);
  EXPECT_EQ(read(R"({"train_batch_size": 6})").world, 6);
  o.assume = false;
  std::string text = errors("{}", o);
  EXPECT_THAT(text, HasSubstr("no optimizer is given"));
  EXPECT_THAT(text, HasSubstr("no batch size is given"));
  EXPECT_EQ(read(R"({"train_batch_size": 6, "optimizer": {"type": "sgd"}})", o).world, 1);
}

TEST(ConfigFlags, SetTakesNamePathAndLastPart) {
  PlanConfig c;
  EXPECT_TRUE(setConfigKey(c, "persistence_threshold", "1").ok());
  EXPECT_TRUE(setConfigKey(c, "stage3_prefetch_bucket_size", "2e3").ok());
  EXPECT_TRUE(setConfigKey(c, "dsplan.world_size", "3").ok());
  EXPECT_TRUE(setConfigKey(c, "loss", "output:y").ok());
  EXPECT_EQ(c.persistenceThreshold, 1);
  EXPECT_EQ(c.prefetchBucketSize, 2000);
  EXPECT_EQ(c.world, 3);
  EXPECT_EQ(c.loss.logits, "y");
  EXPECT_THAT(setConfigKey(c, "type", "sgd").str(), HasSubstr("unknown key 'type'")); // of what?
  EXPECT_THAT(setConfigKey(c, "lr", "-1").str(),
              HasSubstr("lr is '-1', expected a number of at least 0"));
  EXPECT_THAT(setConfigKey(c, "lr", "nan").str(), HasSubstr("lr is 'nan'"));
  EXPECT_THAT(setConfigKey(c, "bf16.bf16_optimizer_states", "true").str(),
              HasSubstr("not supported"));
}

TEST(ConfigLoss, Forms) {
  StatusOr<LossConfig> l = parseLoss("ce:logits=logits,labels=y,ignore_index=-1,shift=1");
  ASSERT_TRUE(l.ok()) << l.status().str();
  EXPECT_EQ(l->kind, LossConfig::Kind::CrossEntropy);
  EXPECT_EQ(l->ignoreIndex, -1);
  EXPECT_EQ(l->shift, 1);
  ASSERT_TRUE(parseLoss("mse:prediction=/out/Add_0=1,target=t").ok());
  EXPECT_EQ(parseLoss("mse:prediction=/out/Add_0=1,target=t")->logits, "/out/Add_0=1");
  auto why = [](const char *text) { return parseLoss(text).status().str(); };
  EXPECT_THAT(why("cee:logits=x"), HasSubstr("unknown loss 'cee'"));
  EXPECT_THAT(why("cee:logits=x"), HasSubstr("did you mean 'ce'?"));
  EXPECT_THAT(why("ce:logit=x"),
              HasSubstr("unknown key 'logit', expected logits, labels, ignore_index or "
                        "shift; did you mean 'logits'?"));
  EXPECT_THAT(why("mse:prediction=x,shift=1"), HasSubstr("unknown key 'shift'"));
  EXPECT_THAT(why("ce:logits=x,shift=2"), HasSubstr("shift is '2', expected 0 or 1"));
  EXPECT_THAT(why("ce:logits=x,logits=y"), HasSubstr("'logits' is given twice"));
  EXPECT_THAT(why("ce:labels=x"), HasSubstr("logits=NAME is missing"));
  EXPECT_THAT(why("ce:logits=,labels=x"), HasSubstr("logits is empty"));
  EXPECT_THAT(why("output:"), HasSubstr("expected output:NAME"));
  EXPECT_THAT(why("ce:logits"), HasSubstr("'logits' is not KEY=VALUE"));
  EXPECT_THAT(why(""), HasSubstr("unknown loss ''"));
}
