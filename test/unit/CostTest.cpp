// SPDX-License-Identifier: Apache-2.0
//
// Least times of a plan: products counted by hand, and the roofline's two sides.
#include "passes/Cost.h"
#include "ir/GraphText.h"
#include "passes/HiddenSize.h"
#include "passes/Passes.h"

#include <gtest/gtest.h>

using namespace ds;

namespace {

constexpr const char *kTwoLayers = R"(module @two {
  param @w1 : f32[16,32] init normal(1,0.1)
  param @w2 : f32[32,16] init normal(2,0.1)
  param @scale : f32[8] init normal(3,0.1)

  func @micro(%x: f32[4,16]) {
  forward:
    %h = matmul %x, @w1 : f32[4,32]
    %a = tanh %h : f32[4,32]
    %y = matmul %a, @w2 : f32[4,16]
    return %y
  }
}
)";

Schedule planned(int64_t gradAccum) {
  auto m = parseModule(kTwoLayers, "two.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  PlanConfig c;
  c.world = 2;
  c.microBatch = 4;
  c.gradAccum = gradAccum;
  c.trainBatch = 8 * gradAccum;
  c.optimizer.type = "adam";
  c.loss.kind = LossConfig::Kind::Mse;
  c.loss.logits = "y";
  c.loss.labels = "t";
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return *s;
}

} // namespace

TEST(Cost, ProductsAreThoseOfTheModel) {
  // Forward 2; backward one for each weight and one for %a: 5 products of 2 x 4 x 16 x 32 operations.
  double flops = 5 * 2 * 4 * 16 * 32;
  DeviceRates r{/*memory=*/1e30, /*flopsF32=*/1e6, /*flops16=*/1};
  EXPECT_NEAR(computeSeconds(planned(1), r), flops / 1e6, 1e-9);
  EXPECT_NEAR(computeSeconds(planned(3), r), 3 * flops / 1e6, 1e-9);
}

TEST(Cost, TheSlowerSideCounts) {
  Schedule s = planned(1);
  double products = computeSeconds(s, {1e30, 1e6, 1}), bytes = computeSeconds(s, {1e6, 1e30, 1});
  double both = computeSeconds(s, {1e6, 1e6, 1});
  EXPECT_GT(bytes, 0);
  EXPECT_GE(both, std::max(products, bytes));
  EXPECT_LT(both, products + bytes);
}

TEST(HiddenSize, IsTheExtentOfMostMatrices) {
  auto size = [](const std::string &params) {
    auto m = parseModule("module @m {\n" + params + "}\n", "m.dsir");
    EXPECT_TRUE(m.ok()) << m.status().str();
    return m.ok() ? hiddenSize(**m) : -1;
  };
  auto p = [n = 0](const char *type) mutable {
    return "  param @p" + std::to_string(n++) + " : f32" + type + " init normal(1,0.1)\n";
  };
  EXPECT_EQ(size(p("[50,8]") + p("[8,24]") + p("[8,8]") + p("[8,32]") + p("[32,8]") + p("[32]")),
            8);
  EXPECT_EQ(size(p("[16,32]") + p("[32,16]")), 0); // either
  EXPECT_EQ(size(p("[2,3]") + p("[4,5]") + p("[4,6]") + p("[7,8]")), 0);
  EXPECT_EQ(size(p("[8]")), 0);
}
