// SPDX-License-Identifier: Apache-2.0
//
// Prefix by prefix, the pairs (kept bytes, seconds) that no other pair beats in both. Which blocks come early decides: what
// they keep lives through the backward of all behind them, so the budget makes the first blocks recompute most.
#include "passes/RecomputeChain.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ds {

namespace {

struct State {
  int64_t kept;
  double seconds;
  int option,
      before; // how it was reached: index into the states of the prefix that is one block shorter
};

bool inOrder(const State &a, const State &b) {
  return a.kept != b.kept ? a.kept < b.kept : a.seconds < b.seconds;
}

// Of states in order those with falling seconds; if there are more than `most`, the fastest of each of `most` equal ranges.
std::vector<State> frontier(const std::vector<State> &all, size_t most) {
  std::vector<State> best;
  for (const State &s : all)
    if (best.empty() || s.seconds < best.back().seconds)
      best.push_back(s);
  if (best.size() <= most)
    return best;
  int64_t low = best.front().kept;
  int64_t range = (best.back().kept - low) / static_cast<int64_t>(most) + 1;
  std::vector<State> thin{best.front()}; // the least stays
  for (size_t k = 1; k < best.size(); ++k) {
    if (thin.size() > 1 && (best[k].kept - low) / range == (thin.back().kept - low) / range)
      thin.back() = best[k];
    else
      thin.push_back(best[k]);
  }
  return thin;
}

// The same of states in any order: first the fastest of each range, so that they need not be sorted.
std::vector<State> frontierOfMany(const std::vector<State> &all, size_t most) {
  const State *fastest = all.data();
  int64_t low = all[0].kept;
  for (const State &s : all) {
    low = std::min(low, s.kept);
    if (s.seconds < fastest->seconds || (s.seconds == fastest->seconds && s.kept < fastest->kept))
      fastest = &s;
  }
  const State *least = nullptr; // stays
  std::vector<const State *> best(most, nullptr);
  double ranges =
      static_cast<double>(most) / (static_cast<double>(fastest->kept - low) + 1); // per byte
  for (const State &s : all) {
    if (s.kept == low && (!least || s.seconds < least->seconds))
      least = &s;
    if (s.kept > fastest->kept)
      continue;
    const State *&mine = best[static_cast<size_t>(static_cast<double>(s.kept - low) * ranges)];
    if (!mine || s.seconds < mine->seconds || (s.seconds == mine->seconds && s.kept < mine->kept))
      mine = &s;
  }
  std::vector<State> thin{*least};
  for (const State *s : best)
    if (s && s->seconds < thin.back().seconds)
      thin.push_back(*s);
  return thin;
}

} // namespace

std::vector<int> assignOptions(const std::vector<std::vector<ChainOption>> &chain, int64_t budget,
                               size_t states) {
  std::vector<std::vector<State>> prefixes{{{0, 0, -1, -1}}};
  for (const std::vector<ChainOption> &options : chain) {
    const std::vector<State> &from = prefixes.back();
    const bool many = from.size() * options.size() > 4 * states;
    // Each option shifts states that are in order, so that merging keeps them so.
    std::vector<State> reached, shifted, merged;
    for (size_t o = 0; o < options.size(); ++o) {
      if (!many)
        shifted.clear();
      for (size_t b = 0; b < from.size() && from[b].kept + options[o].peak <= budget; ++b)
        shifted.push_back({from[b].kept + options[o].saved, from[b].seconds + options[o].seconds,
                           static_cast<int>(o), static_cast<int>(b)});
      if (many)
        continue;
      merged.clear();
      std::merge(reached.begin(), reached.end(), shifted.begin(), shifted.end(),
                 std::back_inserter(merged), inOrder);
      reached = frontier(merged, SIZE_MAX);
    }
    if (reached.empty() && shifted.empty())
      return {};
    prefixes.push_back(many ? frontierOfMany(shifted, states) : frontier(reached, states));
  }
  std::vector<int> choice(chain.size());
  int at = static_cast<int>(prefixes.back().size()) - 1; // the fastest
  for (size_t k = chain.size(); k > 0; --k) {
    choice[k - 1] = prefixes[k][at].option;
    at = prefixes[k][at].before;
  }
  return choice;
}

int64_t leastBudget(const std::vector<std::vector<ChainOption>> &chain) {
  // With a budget, keeping the least that fits in every block is best for all behind it.
  auto fits = [&](int64_t budget) {
    int64_t kept = 0;
    for (const std::vector<ChainOption> &options : chain) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const ChainOption &o : options)
        if (kept + o.peak <= budget)
          least = std::min(least, o.saved);
      if (least == std::numeric_limits<int64_t>::max())
        return false;
      kept += least;
    }
    return true;
  };
  int64_t low = 0, high = 0;
  for (const std::vector<ChainOption> &options : chain) {
    int64_t most = 0;
    for (const ChainOption &o : options)
      most = std::max({most, o.peak, o.saved});
    high += most;
  }
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

} // namespace ds
