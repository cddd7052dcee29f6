// SPDX-License-Identifier: Apache-2.0
//
// From prices to plans: what is moved, in the order in which it becomes worth it as bytes get dearer.
#pragma once

#include "passes/MarketBound.h"

namespace ds {

struct MarketDecisions {
  std::vector<int> places; // by bucket: its option
  std::vector<bool> moved; // by value
  bool operator==(const MarketDecisions &) const = default;
};

/// One decision more: of a bucket or of a value.
struct MarketStep {
  double price = 0; // it is worth it from here on, in units of the prices given
  int bucket = -1, place = 0;
  int value = -1;
};

/// All buckets at their first place.
MarketDecisions nothingMoved(const Market &m);
/// From there to the least memory, cheapest first. A value whose launch is better repeated has no step. Of equal ones the last
/// buckets come first, and the first values.
std::vector<MarketStep> marketSteps(const Market &m, const MarketLimits &limits,
                                    const Prices &prices);
/// The first n, but for those that host memory has no room for.
MarketDecisions afterSteps(const Market &m, const MarketLimits &limits,
                           const std::vector<MarketStep> &steps, size_t n);

/// By point: bytes on the device of all but values, transfers included; the seconds of an update with nothing repeated.
std::vector<int64_t> besideValues(const Market &m, const MarketDecisions &d);
int64_t hostBytes(const Market &m, const MarketDecisions &d);
MarketSeconds busySeconds(const Market &m, const MarketDecisions &d);

} // namespace ds
