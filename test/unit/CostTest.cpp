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

Schedule planned(int64_t gradAccum, const char *text = kTwoLayers, int64_t stage = 0) {
  auto m = parseModule(text, "two.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  PlanConfig c;
  c.world = 2;
  c.microBatch = 4;
  c.stage = stage;
  c.persistenceThreshold = 0;
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

Rates rates(double memory, double flopsF32) {
  Rates r;
  r.memory = memory, r.flopsF32 = flopsF32, r.flops16 = 1;
  return r;
}

// The first instruction of this label, and its seconds.
double secondsOf(const Schedule &s, const std::string &label, const Rates &r) {
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs)
      if (i.label == label)
        return seconds(s, p, i, r);
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

// 4096 rows of a table of 2^20: a part of it is read.
constexpr const char *kTable = R"(module @table {
  param @E : f32[1048576,64] init normal(1,0.02)
  param @w : f32[64,64] init normal(1,0.02)

  func @micro(%ids: i64[4,1024]) {
  forward:
    %h = gather @E, %ids : f32[4,1024,64]
    %y = matmul %h, @w : f32[4,1024,64]
    return %y
  }
}
)";

} // namespace

TEST(Cost, ProductsAreThoseOfTheModel) {
  // Forward 2; backward one for each weight and one for %a: 5 products of 2 x 4 x 16 x 32 operations.
  double flops = 5 * 2 * 4 * 16 * 32;
  Rates r = rates(1e30, 1e6);
  EXPECT_NEAR(computeSeconds(planned(1), r), flops / 1e6, 1e-9);
  EXPECT_NEAR(computeSeconds(planned(3), r), 3 * flops / 1e6, 1e-9);
}

TEST(Cost, TheSlowerSideCounts) {
  Schedule s = planned(1);
  double products = computeSeconds(s, rates(1e30, 1e6)),
         bytes = computeSeconds(s, rates(1e6, 1e30));
  double both = computeSeconds(s, rates(1e6, 1e6));
  EXPECT_GT(bytes, 0);
  EXPECT_GE(both, std::max(products, bytes));
  EXPECT_LT(both, products + bytes);
}

TEST(Cost, OfATableOnlyItsRowsAreRead) {
  Schedule s = planned(1, kTable);
  Rates r = rates(1e6, 1e30);
  double rows = 4 * 1024 * 64 * 4, ids = 4 * 1024 * 8;
  EXPECT_NEAR(secondsOf(s, "h", r), (2 * rows + ids) / 1e6, 1e-9);
  r.launch = 0.5;
  EXPECT_NEAR(secondsOf(s, "h", r), 0.5 + (2 * rows + ids) / 1e6, 1e-9);
}

TEST(Cost, CurvesReplaceTheRoofline) {
  Schedule s = planned(1);
  Rates r = rates(1e30, 1e30);
  double flops = 2 * 4 * 16 * 32, bytes = 2 * 4 * 32 * 4;
  r.curves["matmul f32"] = {{flops / 4, 1e3}, {flops * 4, 4e3}};
  EXPECT_NEAR(secondsOf(s, "h", r), flops / 2e3, 1e-6); // half way between logarithms
  r.curves["matmul f32"] = {{flops * 2, 5e3}};
  EXPECT_NEAR(secondsOf(s, "h", r), flops * 2 / 5e3, 1e-6); // as long as the smallest
  r.curves["matmul f32"] = {{1, 1}, {flops / 2, 7e3}};
  EXPECT_NEAR(secondsOf(s, "h", r), flops / 7e3, 1e-6);
  r.curves["tanh f32"] = {{bytes, 1e3}};
  r.curves["tanh bf16"] = {{1, 1}};
  EXPECT_NEAR(secondsOf(s, "a", r), bytes / 1e3, 1e-6);
}

TEST(Cost, CollectivesTakeStepsAndBytes) {
  Schedule s = planned(1, kTwoLayers, /*stage=*/3);
  Rates r = rates(1e30, 1e30);
  r.link = 1e3, r.hop = 10, r.collective = 100;
  const SchedProgram &p = *s.program("micro.only");
  int gathers = 0, reductions = 0;
  for (const Instr &i : p.instrs) {
    double sent = static_cast<double>(i.elems) / 2 * 4; // 2 ranks
    gathers += i.kind == InstrKind::AllGather;
    reductions += i.kind == InstrKind::ReduceScatter;
    if (i.kind == InstrKind::AllGather || i.kind == InstrKind::ReduceScatter) {
      EXPECT_NEAR(seconds(s, p, i, r), 100 + 10 + sent / 1e3, 1e-9);
    }
  }
  EXPECT_GT(gathers, 0);
  EXPECT_GT(reductions, 0);
}

TEST(Cost, CopiesTakeTheirLinkAndHostLaunchesTheirMemory) {
  Schedule s;
  SchedProgram p;
  for (Space space : {Space::Device, Space::Host, Space::Nvme}) {
    Buffer b;
    b.type = Type(DType::F32, {1000});
    b.type.space = space;
    b.bytes = 4000;
    s.persistent.push_back(b);
  }
  Rates r = rates(1e30, 1e30);
  r.launch = 1, r.hostLink = 1e3, r.hostMemory = 2e3, r.nvmeRead = 4e3, r.nvmeWrite = 8e3;
  auto timed = [&](InstrKind kind, int from, int to) {
    Instr i;
    i.kind = kind;
    i.op = OpKind::Neg;
    i.ins = {{false, from}};
    i.outs = {{false, to}};
    return seconds(s, p, i, r);
  };
  EXPECT_DOUBLE_EQ(timed(InstrKind::Offload, 0, 1), 5);
  EXPECT_DOUBLE_EQ(timed(InstrKind::Fetch, 1, 0), 5);
  EXPECT_DOUBLE_EQ(timed(InstrKind::Read, 2, 1), 2);
  EXPECT_DOUBLE_EQ(timed(InstrKind::Write, 1, 2), 1.5);
  EXPECT_DOUBLE_EQ(timed(InstrKind::Launch, 1, 1), 5);
}

TEST(Cost, RatesAreThePartOfThePeakThatIsReached) {
  std::vector<std::string> missing;
  Target t = *findTarget("a100-80");
  Rates r = ratesOf(t, 8, &missing);
  EXPECT_DOUBLE_EQ(r.flops16, 0.7 * 312e12);
  EXPECT_DOUBLE_EQ(r.memory, 0.9 * 2039e9);
  EXPECT_DOUBLE_EQ(r.link, 0.8 * 300e9);
  EXPECT_DOUBLE_EQ(r.hostLink, 0.8 * 32e9);
  EXPECT_DOUBLE_EQ(r.hop, 3.4e-6);
  EXPECT_TRUE(r.complete(8));
  EXPECT_EQ(std::count(missing.begin(), missing.end(), "product_fraction 0.7"), 1);
  EXPECT_EQ(std::count(missing.begin(), missing.end(), "hop_seconds 5.7e-06"), 0);
  // The machine is shared by its ranks.
  Target cpu = *findTarget("cpu");
  EXPECT_DOUBLE_EQ(ratesOf(cpu, 1).flopsF32, cpu.flopsF32);
  EXPECT_DOUBLE_EQ(ratesOf(cpu, 4).flopsF32, cpu.flopsF32 / 4);
  Target bare;
  bare.deviceMemory = 1 << 30;
  EXPECT_FALSE(ratesOf(bare, 1).complete(1));
  bare.memoryRate = bare.flopsF32 = bare.flops16Bit = 1;
  EXPECT_TRUE(ratesOf(bare, 1).complete(1));
  EXPECT_FALSE(ratesOf(bare, 2).complete(2));
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
