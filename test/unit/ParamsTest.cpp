// SPDX-License-Identifier: Apache-2.0
//
// dsplan --params: ZeRO's formulas, the first stage that fits, and the config that follows.
#include "frontend/ConfigFile.h"
#include "tools/ParamsTool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ds;
using testing::HasSubstr;

namespace {

PlanConfig config(int64_t world, const std::string &target = "") {
  ConfigOverrides o;
  o.world = world;
  if (!target.empty())
    o.target = target;
  StatusOr<PlanConfig> c = parseConfig("{}", "", o);
  EXPECT_TRUE(c.ok()) << c.status().str();
  return *c;
}

} // namespace

// Figure 1 of Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020):
// 7.5e9 parameters, 64 ranks, Adam, mixed precision: 120, 31.4, 16.6 and 1.9 GB.
TEST(Params, AreThoseOfTheZeroPaper) {
  StateBytes mixed = stateBytes(config(64).optimizer)[1];
  double gb[4];
  for (int64_t stage = 0; stage < 4; ++stage)
    gb[stage] = static_cast<double>(stageStates(mixed, 7'500'000'000, 64, stage).total()) / 1e9;
  EXPECT_NEAR(gb[0], 120, 0.05);
  EXPECT_NEAR(gb[1], 31.4, 0.05);
  EXPECT_NEAR(gb[2], 16.6, 0.05);
  EXPECT_NEAR(gb[3], 1.9, 0.05);
}

TEST(Params, StatesFollowTheOptimizer) {
  OptimizerConfig o;
  o.type = "adamw";
  EXPECT_EQ(stateBytes(o)[0].optimizer, 8);
  EXPECT_EQ(stateBytes(o)[1].optimizer, 12);
  o.type = "sgd";
  EXPECT_EQ(stateBytes(o)[0].optimizer, 0);
  EXPECT_EQ(stateBytes(o)[1].optimizer, 4);
  o.momentum = 0.9;
  EXPECT_EQ(stateBytes(o)[0].optimizer, 4);
}

TEST(Params, TrafficIsTwiceOrThriceTheParameters) {
  StateBytes fp32 = stateBytes({})[0];
  EXPECT_EQ(stageTraffic(fp32, 800, 8, 2), 2 * 700 * 4);
  EXPECT_EQ(stageTraffic(fp32, 800, 8, 3), 3 * 700 * 4);
  EXPECT_EQ(stageTraffic(fp32, 800, 1, 3), 0);
}

TEST(Params, TheFirstStageThatFitsIsChosen) {
  // 7e9 over 8 ranks in fp32: 104.3, 58.7, 35.9 and 13.0 GiB.
  for (auto [target, stage] :
       {std::pair("h200-141", 0), {"a100-80", 1}, {"l40s", 2}, {"a10-24", 3}}) {
    StatusOr<ParamsPlan> p = planParams("7B", config(8, target));
    ASSERT_TRUE(p.ok()) << p.status().str();
    EXPECT_TRUE(p->fits.ok()) << p->fits.str();
    EXPECT_EQ(p->config.stage, stage) << target;
    EXPECT_THAT(p->text,
                HasSubstr("fp32: stage " + std::to_string(stage) + " is the first that fits"));
  }
  StatusOr<ParamsPlan> p = planParams("7e9", config(4, "t4-16")); // 26.1 GiB at stage 3
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->fits.code(), Code::DoesNotFit);
  // 16 x 7e9 bytes over what 15109 - 768 MiB hold.
  EXPECT_THAT(p->text, HasSubstr("fp32: no stage fits; stage 3 does from 8 ranks on"));
}

TEST(Params, TheirConfigIsAConfig) {
  StatusOr<ParamsPlan> p = planParams("7B", config(8, "a100-80"));
  ASSERT_TRUE(p.ok());
  std::string text = printConfig(p->config);
  StatusOr<PlanConfig> again = parseConfig(text, "ds.json", {});
  ASSERT_TRUE(again.ok()) << again.status().str() << text;
  EXPECT_EQ(again->stage, 1);
  EXPECT_EQ(again->world, 8);
  EXPECT_EQ(again->trainBatch, 8);
  EXPECT_EQ(again->target, "a100-80");
  EXPECT_THAT(text, HasSubstr("\"stage\": 1, // derived: the first that fits a100-80\n"));
}

TEST(Params, CountsAreNumbers) {
  for (const char *count : {"", "x", "7Q", "-7", "0", "1.5", "1e30", "B"})
    EXPECT_THAT(planParams(count, config(1)).status().str(),
                HasSubstr("expected a number of parameters"))
        << count;
  for (const char *count : {"1500", "1.5K", "1.5k", "1.5e3"})
    EXPECT_THAT(planParams(count, config(1))->text, HasSubstr("1.5 K parameters")) << count;
}
