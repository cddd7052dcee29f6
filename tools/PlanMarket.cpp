// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanMarket.h"

#include "passes/RecomputeAuto.h"
#include "tools/Fit.h"

namespace ds {

StatusOr<PlanMarket> PlanMarket::build(const PlanRounds &rounds, const PlanConfig &c,
                                       const std::vector<StatePlaces> &placements) {
  PlanMarket out;
  TRY_ASSIGN(out.rates, planRates(c));
  TRY_ASSIGN(out.isShared, timesAddUp(c));
  std::vector<Schedule> schedules;
  std::vector<PlacedPlan> plans;
  for (const StatePlaces &p : placements) {
    PlanConfig mine = c;
    mine.offloadOptimizer = p.optimizer;
    mine.offloadParam = p.param;
    mine.offloadActivations.clear();
    TRY_ASSIGN(RecomputePlan plan, rounds.plan(mine, "none"));
    schedules.push_back(std::move(plan.schedule));
  }
  for (size_t k = 0; k < placements.size(); ++k)
    plans.push_back({placements[k].optimizer, placements[k].param, &schedules[k]});
  RecomputeModel m(rounds.program(), schedules[0], out.rates);
  std::vector<Launches> blocks; // what may be repeated
  if (c.recompute.empty() || c.recompute == "auto")
    blocks = recomputeBlocks(rounds.program(), m);
  out.market = marketOf(m, blocks, c.gradAccum, [&](int64_t bytes) {
    return out.rates.launch + static_cast<double>(bytes) / out.rates.hostLink;
  });
  addBuckets(out.market, m, plans, out.rates);
  return out;
}

StatusOr<double> PlanMarket::bound(const PlanConfig &c, double seconds) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  MarketLimits limits;
  limits.device = limit->available();
  limits.host = limit->host;
  limits.isShared = isShared;
  MarketBound b = lowerBound(market, limits, seconds, prices);
  prices = std::move(b.prices);
  return b.seconds;
}

} // namespace ds
