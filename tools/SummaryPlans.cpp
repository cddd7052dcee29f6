// SPDX-License-Identifier: Apache-2.0
#include "tools/SummaryPlans.h"

#include "tools/Advice.h"
#include "tools/PlanRecompute.h"

#include <chrono>

namespace ds {

namespace {

StatusOr<StagePlan> planStage(const LoadedModel &model, int64_t stage) {
  PlanConfig c = model.config;
  c.stage = stage;
  auto start = std::chrono::steady_clock::now();
  StagePlan p;
  TRY_ASSIGN(p.schedule, plan(model, c));
  p.planMs =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  p.stage = stage;
  p.memory = memoryReport(p.schedule);
  p.traffic = trafficReport(p.schedule);
  return p;
}

StatusOr<std::vector<StagePlan>> planStages(const LoadedModel &model) {
  TRY_ASSIGN(std::optional<TargetRates> rates, targetRates(model.config));
  std::vector<StagePlan> all;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    if (model.config.world == 1 && stage > 0) { // there is nothing to shard
      all.push_back(all[0]);
      all.back().stage = all.back().schedule.step.stage = stage;
      continue;
    }
    TRY_ASSIGN(StagePlan p, planStage(model, stage));
    if (rates)
      p.predicted = predict(p.schedule, *rates);
    all.push_back(std::move(p));
  }
  return all;
}

StatusOr<Explanation> explained(const LoadedModel &model, const Schedule &s) {
  Explanation e;
  TRY_ASSIGN(e.now, planAsItIs(model, s));
  TRY_ASSIGN(e.changes, loweringChanges(model, e.now));
  TRY_ASSIGN(e.rates, planRatesName(model.config));
  return e;
}

} // namespace

ParamCount countParams(const Schedule &s) {
  ParamCount c;
  for (const BucketInfo &b : s.buckets)
    for (const SegmentInfo &g : b.segments) {
      int64_t n = Type(b.dtype, g.shape).elems();
      ++c.tensors;
      c.elems += n;
      c.trainedElems += b.trainable ? n : 0;
    }
  return c;
}

std::vector<std::string> unusedParams(const LoadedModel &model, const Schedule &s) {
  std::vector<std::string> names = model.report.unused;
  for (const BucketInfo &b : s.buckets)
    for (const SegmentInfo &g : b.segments)
      if (Symbol *p = model.module->symbol(g.param); !b.trainable && p && p->trainable)
        names.push_back(g.exportName.empty() ? g.param : g.exportName);
  return names;
}

// Plans that take long are not explained unless that is asked for.
static bool isQuick(const PlanConfig &c, const Schedule &s) {
  constexpr size_t kInstrs = 2000;
  size_t instrs = 0;
  for (const SchedProgram &p : s.programs)
    instrs += p.instrs.size();
  return instrs <= kInstrs && c.offload != "auto";
}

StatusOr<SummaryPlans> summaryPlans(const LoadedModel &model, bool explain) {
  SummaryPlans p;
  TRY_ASSIGN(p.limit, memoryLimit(model.config));
  TRY_ASSIGN(p.stages, planStages(model));
  const Schedule &chosen = p.stages[model.config.stage].schedule;
  TRY_ASSIGN(p.recomputed, recomputeSummary(model, chosen));
  p.fits = checkFits(chosen, model.config);
  if ((explain || !p.fits.ok() || isQuick(model.config, chosen)) && !passOptions().watches()) {
    TRY_ASSIGN(p.explanation, explained(model, chosen));
    p.fits = withAdvice(std::move(p.fits), model, &chosen, 0, &p.explanation->changes);
  }
  return p;
}

} // namespace ds
