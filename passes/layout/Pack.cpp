// SPDX-License-Identifier: Apache-2.0
//
// Greedy first; what it leaves above the bound is searched: at the bound, and at heights between it and the best
// packing, with budgets that double. An exhausted search raises the bound, a packing found lowers the height.
#include "passes/layout/Search.h"

#include <algorithm>

namespace ds {

namespace layout {

namespace {

// Beyond these the search would not get through once: its tables have an entry per pair of buffer and section.
constexpr int64_t kMostPairs = 4'000'000;
constexpr int kMostBuffers = 5000;
constexpr int64_t kGreedyBudget = 100'000'000; // comparisons
constexpr int64_t kFirstFails = 500;           // dead ends

class Ladder {
public:
  Ladder(int64_t bound, int64_t enough, Packing &best, Search &search)
      : low(bound), enough(enough), best(best), search(search) {}

  // Some orders find in a thousand steps what others do not in a billion, so all of them get little at first. One
  // that succeeds goes on.
  void climb(int64_t work) {
    int64_t fails = kFirstFails;
    for (int order = 0; !done() && search.steps < work && !search.timedOut; ++order) {
      while (descend(order, fails, work))
        ;
      if (order % Search::kOrders == Search::kOrders - 1)
        fails *= 2;
    }
  }
  int64_t bound() const { return low; }

private:
  bool done() const { return best.height <= std::max(low, enough); }
  // Tries heights from the bound up to the middle; true if it packed lower.
  bool descend(int order, int64_t fails, int64_t work) {
    int64_t before = -1;
    for (int64_t part : {0, 8, 4, 2, 1}) {
      int64_t cap = std::max(part == 0 ? low : low + (best.height - 1 - low) / part, enough);
      if (done() || cap == before || cap >= best.height || search.steps >= work)
        continue;
      before = cap;
      Outcome o = search.run(cap, order, fails, work - search.steps);
      if (o == Outcome::Exhausted)
        low = cap + 1;
      if (o != Outcome::Found)
        continue;
      best = search.packing();
      return true;
    }
    return false;
  }

  int64_t low;
  const int64_t enough;
  Packing &best;
  Search &search;
};

} // namespace

} // namespace layout

using namespace layout;

PackResult packIntervals(std::vector<PackItem> &items, int64_t align, const PackLimits &limits) {
  auto start = Search::Clock::now();
  Search::Clock::time_point deadline;
  if (limits.seconds > 0)
    deadline = start + std::chrono::duration_cast<Search::Clock::duration>(
                           std::chrono::duration<double>(limits.seconds));
  Problem p = makeProblem(items, align);
  int64_t enough = std::max(p.maxLoad, limits.capacity / p.unit);
  Packing best = packGreedy(p, enough, kGreedyBudget);
  if (p.n == 0)
    best.height = 0;
  PackResult r;
  int64_t bound = p.maxLoad, pairs = 0;
  for (int i = 0; i < p.n; ++i)
    pairs += p.width(i);
  if (best.height > enough && pairs <= kMostPairs && p.n <= kMostBuffers) {
    Search search(p, deadline);
    Ladder ladder(bound, enough, best, search);
    ladder.climb(limits.work);
    bound = ladder.bound();
    r.nodes = search.nodes;
  }
  for (PackItem &i : items)
    i.offset = 0;
  for (int i = 0; i < p.n; ++i)
    items[p.source[i]].offset = best.offset[i] * p.unit;
  r.height = best.height * p.unit;
  r.load = p.maxLoad * p.unit;
  r.bound = bound * p.unit;
  return r;
}

int64_t packIntervals(std::vector<PackItem> &items, int64_t align) {
  return packIntervals(items, align, PackLimits()).height;
}

} // namespace ds
