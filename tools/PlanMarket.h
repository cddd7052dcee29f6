// SPDX-License-Identifier: Apache-2.0
//
// The market of a model's training: what each decision costs, by plans that make all of one kind, and the least time of any plan.
#pragma once

#include "passes/MarketBound.h"
#include "tools/PlanRecompute.h"

namespace ds {

/// Where optimizer states and parameters go: "" (they stay), "cpu", "nvme".
struct StatePlaces {
  std::string optimizer, param;
};

class PlanMarket {
public:
  /// c: complete, with workspaceBytes. placements: those that buckets may have; the first moves nothing that is not given.
  static StatusOr<PlanMarket> build(const PlanRounds &rounds, const PlanConfig &c,
                                    const std::vector<StatePlaces> &placements);

  /// No plan that fits the limits of c takes less; `seconds`: of one that fits. Prices go from call to call.
  StatusOr<double> bound(const PlanConfig &c, double seconds);

private:
  Rates rates;
  bool isShared = false; // the ranks' streams share this machine's processors: times add up
  Market market;
  Prices prices;
};

} // namespace ds
