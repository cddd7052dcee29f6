// SPDX-License-Identifier: Apache-2.0
//
// A lower bound on the time of an update within a limit of memory, by Lagrange's method. Bytes have a price at every point of the
// market, seconds one on every stream. Given prices each decision is made alone: a value is kept for bytes x prices of its
// gap, or moved for the seconds of its links; what is repeated is a minimum cut per part; a bucket takes its cheapest place.
// What all of that costs, less what the limit's bytes would cost, is at most the time of any plan that fits:
//   time of a plan >= sum over streams and chains of weight x seconds       (weights add up to 1; on a device whose
//                                                                            streams share processors theirs are 1)
//                  >= that + sum over points of price x (bytes - limit)      (no factor is positive where a plan fits)
//                  >= the same with every decision made at its least cost.
// So it holds for all decisions of the market together, at any prices; good prices only make it better.
#pragma once

#include "passes/Market.h"

namespace ds {

struct Prices {
  std::vector<double> point; // seconds per byte
  double host = 0;           // the same of host memory
  MarketSeconds weight{};    // per second
};

/// Bytes cost nothing.
Prices noPrices(const Market &m, bool isShared);

/// What is best at given prices, and what comes of it.
struct MarketChoice {
  double bound = 0;          // seconds
  std::vector<double> bytes; // by point
  double host = 0;           // bytes
  MarketSeconds busy{};
  enum class State : uint8_t { Unneeded, Kept, Moved, Repeated };
  std::vector<State> values;
  std::vector<int> places; // by bucket: its option
};
struct MarketLimits {
  int64_t device = 0;
  int64_t host = 0;     // 0: none
  bool isShared = true; // the streams share the same processors and memory: times add up
  bool moves = true;    // values may wait in host memory
};
MarketChoice bestAt(const Market &m, const MarketLimits &limits, const Prices &prices);

struct MarketBound {
  double seconds = 0;
  Prices prices; // that show it
};
/// Subgradient ascent from the prices of another limit, if any. seconds: of a plan that fits, which the bound can't exceed.
MarketBound lowerBound(const Market &m, const MarketLimits &limits, double seconds,
                       Prices from = {}, int iterations = 100);

} // namespace ds
