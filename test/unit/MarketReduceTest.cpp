// SPDX-License-Identifier: Apache-2.0
//
// What buckets cost at each place, read off reduced plans, is what whole plans say.
#include "test/unit/Gpt2.h"

#include "frontend/ConfigFile.h"
#include "passes/Market.h"
#include "tools/PlanRecompute.h"
#include "tools/Workspace.h"

#include <gtest/gtest.h>

using namespace ds;
using namespace ds::test;

namespace {

void expectEqual(const Market::Option &whole, const Market::Option &reduced,
                 const std::string &name) {
  SCOPED_TRACE(name + " at '" + whole.optimizer + "', '" + whole.param + "'");
  EXPECT_EQ(whole.device, reduced.device);
  EXPECT_EQ(whole.host, reduced.host);
  EXPECT_DOUBLE_EQ(whole.again, reduced.again);
  for (int s = 0; s < kPaths; ++s)
    EXPECT_NEAR(whole.seconds[s], reduced.seconds[s], 1e-9 * (1e-6 + whole.seconds[s]))
        << "path " << s;
  ASSERT_EQ(whole.windows.size(), reduced.windows.size());
  for (size_t w = 0; w < whole.windows.size(); ++w) {
    EXPECT_EQ(whole.windows[w].bytes, reduced.windows[w].bytes);
    EXPECT_EQ(whole.windows[w].first, reduced.windows[w].first);
    EXPECT_EQ(whole.windows[w].end, reduced.windows[w].end);
    EXPECT_EQ(whole.windows[w].from, reduced.windows[w].from);
    EXPECT_EQ(whole.windows[w].to, reduced.windows[w].to);
  }
}

void compare(int64_t world, int64_t stage, int64_t accum, bool bf16) {
  SCOPED_TRACE(std::to_string(world) + " ranks, stage " + std::to_string(stage) + ", " +
               std::to_string(accum) + " micro-batches");
  PlanConfig c;
  c.world = world;
  c.stage = stage;
  c.microBatch = 2;
  c.gradAccum = accum;
  c.precision.bf16 = bf16;
  c.optimizer.type = "adamw";
  c.reduceBucketSize = c.allgatherBucketSize = 50'000;
  c.loss = *parseLoss("ce:logits=logits,labels=labels");
  c.workspaceBytes = workspaceRule("cpu", 1, world);
  ImportOptions o;
  o.microBatch = c.microBatch;
  o.dims = {{"seq", 16}};
  auto model = importOnnx(inTree("models/gpt2-small/model.onnx"), o);
  ASSERT_TRUE(model.ok()) << model.status().str();
  auto rounds = PlanRounds::prepare(**model, c);
  ASSERT_TRUE(rounds.ok()) << rounds.status().str();
  auto whole = rounds->beforeOffload(c), reduced = rounds->beforeOffload(c);
  ASSERT_TRUE(whole.ok() && reduced.ok());
  Rates rates = *planRates(c);
  Market markets[2];
  RecomputeModel m;
  for (BucketPlace place :
       {BucketPlace{"", ""}, {"cpu", ""}, {"", "cpu"}, {"cpu", "cpu"}, {"nvme", "nvme"}}) {
    if (world > 1 && stage < 3)
      place.param = "";
    PlanConfig mine = c;
    mine.offloadOptimizer = place.optimizer;
    mine.offloadParam = place.param;
    auto a = whole->emit(mine), b = reduced->emit(mine);
    ASSERT_TRUE(a.ok()) << a.status().str();
    ASSERT_TRUE(b.ok()) << b.status().str();
    bool isFirst = markets[0].buckets.empty();
    if (isFirst)
      m = RecomputeModel(rounds->program(), *a, rates);
    addPlace(markets[0], m, {place.optimizer, place.param, &*a}, rates);
    addPlace(markets[1], m, {place.optimizer, place.param, &*b, !isFirst}, rates);
    if (isFirst) {
      reduceToBuckets(reduced->module(), m);
    } else {
      EXPECT_LT(b->programs[0].instrs.size(), a->programs[0].instrs.size());
    }
  }
  ASSERT_EQ(markets[0].buckets.size(), markets[1].buckets.size());
  EXPECT_GT(markets[0].buckets.size(), 2u);
  for (size_t b = 0; b < markets[0].buckets.size(); ++b)
    for (size_t k = 0; k < markets[0].buckets[b].options.size(); ++k)
      expectEqual(markets[0].buckets[b].options[k], markets[1].buckets[b].options[k],
                  markets[0].buckets[b].name);
}

TEST(MarketReduce, SaysWhatWholePlansSay) {
  compare(1, 0, 1, false);
  compare(1, 0, 3, true);
  compare(2, 3, 2, false);
  compare(3, 2, 1, false);
  compare(2, 3, 1, true);
}

} // namespace
