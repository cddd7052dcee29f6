// SPDX-License-Identifier: Apache-2.0
//
// The market of a model's training under a config: prices, the least time of any plan, and estimates of plans that are not made.
#pragma once

#include "passes/MarketSteps.h"
#include "tools/PlanRecompute.h"

namespace ds {

class PlanMarket {
public:
  /// c: complete, with workspaceBytes. places: of optimizer states and parameters, those that buckets may have; the first
  /// moves nothing that is not given.
  static StatusOr<PlanMarket> build(const PlanRounds &rounds, const PlanConfig &c,
                                    const std::vector<BucketPlace> &places);

  /// Sets the limits to those of c, before anything else is asked.
  Status limitTo(const PlanConfig &c);
  /// No plan that fits takes less; `seconds`: of one that does. Prices go on from those of the call before.
  double bound(double seconds, int iterations);

  MarketDecisions nothing() const { return nothingMoved(market); }
  /// All buckets at one of the places, by its index; values in host memory or not.
  MarketDecisions everything(int place, bool values) const;
  /// Whether streams run beside each other.
  bool overlaps() const { return !limits.isShared; }
  /// Prices, as from a bound, of a machine on which nothing does; total: seconds of a plan there.
  void priceTotal(double total, int iterations);
  /// By one of the two.
  std::vector<MarketStep> steps(bool byTotal) const {
    return marketSteps(market, limits, byTotal ? totalPrices : prices);
  }
  MarketDecisions after(const std::vector<MarketStep> &steps, size_t n) const {
    return afterSteps(market, limits, steps, n);
  }
  /// The same with one bucket back at its first place, or one value kept; what takes most seconds first.
  std::vector<MarketDecisions> withOneLess(const MarketDecisions &d) const;
  /// What is moved in both.
  MarketDecisions common(MarketDecisions a, const MarketDecisions &b) const;

  struct Estimate {
    double seconds = 0, total = 0; // total: if nothing ran beside anything
    double least = 0;              // no plan that repeats the same takes less
    int64_t peak = 0;
    bool fits = false;
    std::vector<std::string> values; // to repeat
  };
  /// bytes: of the device.
  Estimate estimate(const MarketDecisions &d, int64_t bytes) const;
  int64_t deviceBytes() const { return limits.device; }
  /// The config that says so.
  PlanConfig configOf(const MarketDecisions &d, PlanConfig c) const;
  /// "optimizer states to cpu, 40 % of parameters to cpu, 12 activations to cpu", or that nothing is moved.
  std::string text(const MarketDecisions &d) const;
  size_t launches() const { return model.launches.size(); }

private:
  Rates rates;
  std::vector<Launches> blocks; // what may be repeated
  RecomputeModel model;         // nothing moved
  Market market;
  MarketLimits limits;
  Prices prices, totalPrices;
};

} // namespace ds
