// SPDX-License-Identifier: Apache-2.0
//
// Offsets for buffers with fixed lifetimes (dynamic storage allocation). A portfolio of greedy first-fit orders,
// then rounds in which the buffers that reach the top move to the front of the best order; stops at
// the lower bound. Deterministic: rounds are counted, not timed.
#include "passes/Emit.h"

#include <algorithm>
#include <numeric>

namespace ds {

namespace {

using Order = std::vector<int>;

class Packer {
public:
  Packer(const std::vector<PackItem> &items, int64_t align) : items(items) {
    for (const PackItem &i : items)
      bytes.push_back((i.bytes + align - 1) / align * align);
    bound = maxLoad(items, align);
    findNeighbours();
  }

  int64_t run(std::vector<PackItem> &out) {
    int64_t best = INT64_MAX;
    Order bestOrder;
    std::vector<int64_t> bestOffsets;
    auto consider = [&](const Order &o) {
      std::vector<int64_t> offsets;
      int64_t height = firstFit(o, offsets);
      if (height < best) {
        best = height;
        bestOrder = o;
        bestOffsets = offsets;
        return true;
      }
      return false;
    };
    for (const Order &o : startOrders())
      if (best > bound)
        consider(o);
    // Work is bounded by pair tests, about a tenth of a second.
    int64_t budget = 40'000'000 / std::max<int64_t>(1, pairs);
    for (int64_t round = 0; round < std::min<int64_t>(budget, 200) && best > bound; ++round) {
      Order o = bestOrder;
      // The more rounds fail, the further below the top the moved buffers may end.
      int64_t threshold = best - (best - bound) * (1 + round);
      std::stable_partition(o.begin(), o.end(),
                            [&](int i) { return bestOffsets[i] + bytes[i] > threshold; });
      if (!consider(o) && threshold < 0)
        break;
    }
    for (size_t i = 0; i < out.size(); ++i)
      out[i].offset = bestOffsets[i];
    return best == INT64_MAX ? 0 : best;
  }

private:
  // Buffers alive at the same time, in index order.
  void findNeighbours() {
    neighbours.resize(items.size());
    Order byStart(items.size());
    std::iota(byStart.begin(), byStart.end(), 0);
    std::stable_sort(byStart.begin(), byStart.end(),
                     [&](int a, int b) { return items[a].first < items[b].first; });
    Order live;
    for (int i : byStart) {
      std::erase_if(live, [&](int j) { return items[j].last < items[i].first; });
      for (int j : live) {
        neighbours[i].push_back(j);
        neighbours[j].push_back(i);
      }
      pairs += static_cast<int64_t>(live.size());
      live.push_back(i);
    }
  }

  std::vector<Order> startOrders() const {
    auto sorted = [&](auto key) {
      Order o(items.size());
      std::iota(o.begin(), o.end(), 0);
      std::stable_sort(o.begin(), o.end(), [&](int a, int b) { return key(a) > key(b); });
      return o;
    };
    auto life = [&](int i) { return int64_t(items[i].last - items[i].first + 1); };
    return {
        sorted([&](int i) { return bytes[i]; }),
        sorted([&](int i) { return std::pair(life(i), bytes[i]); }),
        sorted([&](int i) { return double(bytes[i]) * double(life(i)); }),
        sorted([&](int i) { return std::tuple(-items[i].first, life(i)); }),
        sorted([&](int i) { return std::pair(bytes[i], life(i)); }),
    };
  }

  // Lowest offset at which an item fits between its already placed neighbours.
  int64_t firstFit(const Order &order, std::vector<int64_t> &offsets) const {
    offsets.assign(items.size(), -1);
    int64_t height = 0;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (int i : order) {
      if (bytes[i] == 0) {
        offsets[i] = 0;
        continue;
      }
      taken.clear();
      for (int j : neighbours[i])
        if (offsets[j] >= 0 && bytes[j] > 0)
          taken.emplace_back(offsets[j], offsets[j] + bytes[j]);
      std::sort(taken.begin(), taken.end());
      int64_t at = 0;
      for (auto [begin, end] : taken) {
        if (begin - at >= bytes[i])
          break;
        at = std::max(at, end);
      }
      offsets[i] = at;
      height = std::max(height, at + bytes[i]);
    }
    return height;
  }

  const std::vector<PackItem> &items;
  std::vector<int64_t> bytes;
  std::vector<Order> neighbours;
  int64_t bound = 0, pairs = 0;
};

} // namespace

int64_t maxLoad(const std::vector<PackItem> &items, int64_t align) {
  std::vector<std::pair<int, int64_t>> events; // ends before starts at the same time
  for (const PackItem &i : items) {
    int64_t bytes = (i.bytes + align - 1) / align * align;
    events.emplace_back(2 * i.first + 1, bytes);
    events.emplace_back(2 * (i.last + 1), -bytes);
  }
  std::sort(events.begin(), events.end());
  int64_t live = 0, peak = 0;
  for (auto [time, bytes] : events)
    peak = std::max(peak, live += bytes);
  return peak;
}

int64_t packIntervals(std::vector<PackItem> &items, int64_t align) {
  std::vector<PackItem> input = items;
  return Packer(input, align).run(items);
}

} // namespace ds
