// SPDX-License-Identifier: Apache-2.0
#include "test/property/Rows.h"
#include "test/property/Spec.h"

#include "frontend/ConfigFile.h"
#include "passes/Passes.h"

namespace ds::property {

static GraphSpec drawGraph(Choices &c) {
  static const std::vector<int64_t> extents{1, 2, 3, 5, 7, 4}, widths{1, 2, 3, 5, 7, 9, 13},
      wide{17, 31, 40};
  GraphSpec g;
  for (int64_t i = 0, n = 1 + c.below(2); i < n; ++i) {
    std::vector<int64_t> dims;
    for (int64_t k = 0, rank = c.below(3); k < rank; ++k)
      dims.push_back(c.of(extents));
    g.floats.push_back(dims);
  }
  for (int64_t i = 0, n = c.below(3); i < n; ++i)
    g.ids.push_back(c.of(extents));
  g.sizes = {c.of(widths), c.of(widths), c.of(wide)};
  size_t values = g.floats.size();
  for (int64_t i = 0, n = 2 + c.below(12); i < n; ++i, ++values) {
    NodeSpec node;
    node.row = c.chance(40) ? c.of(layerRows())
                            : static_cast<int>(c.below(static_cast<int64_t>(rows().size())));
    node.seed = c.bits() | 1;
    node.key = static_cast<int>(i);
    if (i && c.chance(25)) // the same layer again: its weights are tied where the shapes agree
      node = g.nodes[static_cast<size_t>(c.below(i))];
    node.x = c.chance(75) ? values - 1 : static_cast<size_t>(c.below(static_cast<int64_t>(values)));
    node.y = static_cast<size_t>(c.below(static_cast<int64_t>(values)));
    node.layer = static_cast<int>(i / 3);
    g.nodes.push_back(node);
  }
  static const std::vector<LossConfig::Kind> losses{
      LossConfig::Kind::Mse, LossConfig::Kind::CrossEntropy, LossConfig::Kind::Output};
  g.loss = c.of(losses);
  g.headSeed = c.bits() | 1;
  g.unused = c.chance(30) ? 1 + c.below(4) : 0;
  g.paths = c.chance(50);
  return g;
}

// What may differ between two runs with the same bits.
static void drawPlan(Choices &c, PlanConfig &p) {
  static const std::vector<int64_t> buckets{1, 7, 40, 300, 500'000'000}, kept{0, 5, 30, 100'000};
  static const std::vector<std::string> reduce{"", "", "boundary", "every"},
      carry{"", "on", "on", "off"};
  p.stage = c.below(4);
  p.reduceBucketSize = c.of(buckets);
  p.allgatherBucketSize = c.chance(30) ? c.of(buckets) : 500'000'000;
  p.persistenceThreshold = c.of(kept);
  p.prefetchBucketSize = c.chance(30) ? 0 : 50'000'000;
  p.keepGathered = c.below(4);
  p.overlap = c.chance(70);
  p.reduce = c.of(reduce);
  p.carry = c.of(carry);
}

// Host memory and nvme take what the stage allows.
static void drawOffload(Choices &c, PlanConfig &p) {
  auto place = [&] { return c.chance(30) ? "nvme" : "cpu"; };
  if ((p.stage > 0 || p.world == 1) && c.chance(40)) {
    p.offloadOptimizer = place();
    p.offloadRatio = c.chance(30) ? 0.5 : 1;
    p.offloadBuffers = 1 + c.below(4);
    p.subGroupSize = c.chance(50) ? 1 + c.below(600) : p.subGroupSize;
  }
  if ((p.stage == 3 || p.world == 1) && c.chance(40))
    p.offloadParam = place();
}

static void drawOptimizer(Choices &c, PlanConfig &p) {
  OptimizerConfig &o = p.optimizer;
  static const std::vector<std::string> types{"sgd", "adam", "adamw"};
  o.type = c.of(types);
  o.weightDecay = c.chance(50) ? 0.05 : 0;
  if (o.type == "sgd") {
    o.lr = 0.05;
    o.momentum = c.chance(60) ? 0.9 : 0;
    o.nesterov = o.momentum > 0 && c.chance(50);
  } else {
    o.lr = 0.01;
    o.adamWMode = !c.chance(40);
    o.biasCorrection = !c.chance(30);
  }
  static const std::vector<double> clips{1, 0, 0.01, 100};
  p.clip = c.of(clips);
  if (!c.chance(40))
    return;
  SchedulerConfig &s = p.scheduler;
  static const std::vector<std::string> schedules{"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
  s.type = c.of(schedules);
  s.warmupSteps = 2 + c.below(4);
  s.logWarmup = c.chance(50);
  if (s.type != "WarmupLR")
    s.totalSteps = 1 + c.below(8); // also less than the warm-up
  if (s.type == "WarmupCosineLR") {
    s.minRatio = 0.3;
    return;
  }
  s.minLr = o.lr * 0.3;
  if (s.type == "WarmupDecayLR" || c.chance(50))
    s.maxLr = o.lr * 1.5;
}

static void drawType(Choices &c, const std::string &type, PlanConfig &p) {
  PrecisionConfig &half = p.precision;
  half.bf16 = type == "bf16";
  half.fp16 = type == "fp16";
  if (!half.isHalf()) {
    p.dtype = type;
    return;
  }
  p.commType = c.chance(30) ? "fp32" : "";
  half.lossScale = half.fp16 && c.chance(30) ? 64 : 0;
  half.initialScalePower = 10 + c.below(12); // some overflow at first
  half.window = 1 + c.below(3);
  half.hysteresis = 1 + c.below(2);
}

static LossConfig drawLoss(Choices &c, LossConfig::Kind kind) {
  std::string text = "output:loss.mean";
  if (kind == LossConfig::Kind::Mse)
    text = "mse:prediction=out,target=target";
  if (kind == LossConfig::Kind::CrossEntropy) {
    text = "ce:logits=out,labels=labels";
    if (c.chance(50)) // a class: some labels do not count
      text += ",ignore_index=" + std::to_string(c.below(2));
    if (c.chance(30))
      text += ",shift=1"; // dropped where the logits have no sequence
  }
  return *parseLoss(text);
}

bool sameBits(const PlanConfig &a, const PlanConfig &b) {
  return a.world == b.world && (a.gradAccum == 1 || reducesAtBoundary(a) == reducesAtBoundary(b));
}

CaseSpec drawCase(uint64_t seed) {
  Choices c(seed * 2 + 1);
  CaseSpec spec;
  spec.seed = seed;
  spec.graph = drawGraph(c);
  PlanConfig &p = spec.config;
  p.world = 1 + c.below(8);
  p.gradAccum = 1 + c.below(c.chance(50) ? 4 : 2);
  p.microBatch = 1 + c.below(3);
  p.trainBatch = p.world * p.gradAccum * p.microBatch;
  drawPlan(c, p);
  drawOptimizer(c, p);
  static const std::vector<std::string> types{"", "", "f32", "f64", "bf16", "fp16"};
  drawType(c, c.of(types), p);
  p.loss = drawLoss(c, spec.graph.loss);
  spec.partner = p;
  do
    drawPlan(c, spec.partner);
  while (!sameBits(spec.config, spec.partner));
  spec.updates = static_cast<int>(2 + c.below(3));
  // Nothing, whole layers, all that can be, or some.
  static const std::vector<std::string> recomputed{"", "", "layers", ".", "[0-4]|loss"};
  p.recompute = c.of(recomputed);
  spec.partner.recompute = c.of(recomputed);
  drawOffload(c, p);
  drawOffload(c, spec.partner);
  return spec;
}

} // namespace ds::property
