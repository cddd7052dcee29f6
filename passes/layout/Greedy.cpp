// SPDX-License-Identifier: Apache-2.0
//
// First fit in several orders, then rounds in which the buffers that reach the top move to the front of the best
// order. Training plans mostly end here, at the lower bound. Two orders follow their structure: long lives
// first stacks what a chain of layers saves, since those lives are nested; time order turns windows
// of gathered weights into a ring.
#include "passes/layout/Problem.h"
#include "passes/layout/Shelf.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ds::layout {

namespace {

using Order = std::vector<int>;

class Greedy {
public:
  Greedy(const Problem &p, int64_t enough, int64_t budget)
      : p(p), enough(enough), budget(budget), shelf(p.sections) {}

  Packing run() {
    for (const Order &o : startOrders())
      if (best.height > enough && (budget > 0 || best.height == INT64_MAX))
        consider(o);
    for (int64_t round = 1; round <= 200 && best.height > enough && budget > 0; ++round) {
      Order o = bestOrder;
      // The more rounds fail, the further below the top the moved buffers may end.
      int64_t threshold = best.height - (best.height - enough) * round;
      std::stable_partition(o.begin(), o.end(),
                            [&](int i) { return best.offset[i] + p.size[i] > threshold; });
      if (!consider(o) && threshold < 0)
        break;
    }
    return std::move(best);
  }

private:
  bool consider(const Order &o) {
    Packing now;
    if (!firstFit(o, now))
      return false;
    best = std::move(now);
    bestOrder = o;
    return true;
  }

  std::vector<Order> startOrders() const {
    auto by = [&](auto key) {
      Order o(p.n);
      std::iota(o.begin(), o.end(), 0);
      std::stable_sort(o.begin(), o.end(), [&](int a, int b) { return key(a) > key(b); });
      return o;
    };
    using Key = std::array<double, 3>;
    auto size = [&](int i) { return static_cast<double>(p.size[i]); };
    auto width = [&](int i) { return static_cast<double>(p.width(i)); };
    auto peak = [&](int i) { return static_cast<double>(p.peak[i]); };
    auto area = [&](int i) { return size(i) * width(i); };
    return {
        by([&](int i) {
          return Key{size(i), 0, 0};
        }),
        by([&](int i) {
          return Key{width(i), size(i), 0};
        }),
        by([&](int i) {
          return Key{area(i), 0, 0};
        }),
        by([&](int i) {
          return Key{double(-p.first[i]), width(i), size(i)};
        }),
        by([&](int i) {
          return Key{size(i), width(i), 0};
        }),
        by([&](int i) {
          return Key{double(p.last[i]), width(i), size(i)};
        }),
        by([&](int i) {
          return Key{peak(i), area(i), width(i)};
        }),
        by([&](int i) {
          return Key{peak(i), width(i), area(i)};
        }),
        by([&](int i) {
          return Key{peak(i), size(i), width(i)};
        }),
        by([&](int i) {
          return Key{width(i), area(i), peak(i)};
        }),
        by([&](int i) {
          return Key{area(i), peak(i), width(i)};
        }),
        by([&](int i) {
          return Key{size(i), double(-p.first[i]), 0};
        }),
    };
  }

  // Lowest offset at which each buffer fits between those placed before it. False once it gets as high as the
  // best.
  bool firstFit(const Order &order, Packing &out) {
    out.offset.assign(p.n, 0);
    out.height = 0;
    shelf.clear();
    for (int i : order) {
      int64_t at = 0, size = p.size[i];
      budget -= 1 + shelf.visit(p.first[i], p.last[i], [&](const Placed &o) {
        if (o.begin - at >= size)
          return false;
        at = std::max(at, o.end);
        return true;
      });
      if (at + size >= best.height)
        return false;
      shelf.add({at, at + size, p.first[i], p.last[i]});
      out.offset[i] = at;
      out.height = std::max(out.height, at + size);
    }
    return true;
  }

  const Problem &p;
  const int64_t enough;
  int64_t budget;
  Shelf shelf;
  Packing best;
  Order bestOrder;
};

} // namespace

Packing packGreedy(const Problem &p, int64_t enough, int64_t budget) {
  return Greedy(p, enough, budget).run();
}

} // namespace ds::layout
