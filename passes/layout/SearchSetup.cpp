// SPDX-License-Identifier: Apache-2.0
//
// The tables of the exact search, and what it tries first.
#include "passes/layout/Search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace ds::layout {

Search::Search(const Problem &p, Clock::time_point deadline) : p(p), deadline(deadline) {
  begin.resize(p.sections + 1);
  for (int i = 0; i < p.n; ++i)
    for (int s = p.first[i]; s <= p.last[i]; ++s)
      ++begin[s + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  ids.resize(begin.back());
  pos.resize(begin.back());
  count.resize(p.sections);
  ready.resize(p.sections);
  crossing.resize(p.sections);
  int base = 0;
  for (int i = 0; i < p.n; ++i) {
    posBase.push_back(base);
    base += p.width(i);
    for (int s = p.first[i]; s <= p.last[i]; ++s) {
      pos[posBase[i] + s - p.first[i]] = count[s];
      ids[begin[s] + count[s]++] = i;
      crossing[s] += s < p.last[i];
    }
  }
  total = p.load;
  floor.resize(p.sections);
  top.resize(p.sections);
  low.resize(p.n);
  offset.resize(p.n);
  placed.resize(p.n);
  rank.resize(p.n);
  contact.resize(p.n);
  dirty.resize((p.sections + 63) / 64);
  firstDirty = dirty.size();

  byFirst.resize(p.n);
  std::iota(byFirst.begin(), byFirst.end(), 0);
  auto key = [&](int i) { return std::tuple(p.first[i], p.last[i], p.size[i], i); };
  std::sort(byFirst.begin(), byFirst.end(), [&](int a, int b) { return key(a) < key(b); });
  twin.assign(p.n, -1);
  for (int k = 1; k < p.n; ++k) {
    int a = byFirst[k - 1], b = byFirst[k];
    if (p.first[a] == p.first[b] && p.last[a] == p.last[b] && p.size[a] == p.size[b])
      twin[b] = a;
  }
  firstOf.assign(p.sections + 1, 0);
  for (int i = 0; i < p.n; ++i)
    ++firstOf[p.first[i] + 1];
  std::partial_sum(firstOf.begin(), firstOf.end(), firstOf.begin());
}

// What is tried first: what fits well, then by one of five keys; and the keys alone. After these ten the same again, with
// every key blurred.
void Search::setOrder(int order) {
  using Key = std::array<double, 3>;
  byContact = order / kKeys % 2 == 0;
  int blurring = order / (2 * kKeys);
  std::vector<std::pair<Key, int>> keyed;
  for (int i = 0; i < p.n; ++i) {
    StateKey noise;
    noise.add(static_cast<uint64_t>(blurring) * static_cast<uint64_t>(p.n) + i);
    double blur = blurring == 0 ? 1 : 1 + 0.5 * static_cast<double>(noise.a >> 11) * 0x1p-53;
    double size = blur * static_cast<double>(p.size[i]), width = blur * p.width(i);
    double peak = static_cast<double>(p.peak[i]), area = size * width;
    const Key keys[kKeys] = {{width, area, peak},
                             {-width, size, peak},
                             {size, width, peak},
                             {peak, area, width},
                             {area, peak, width}};
    keyed.emplace_back(keys[order % kKeys], i);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto &x, const auto &y) { return x.first > y.first; });
  for (int k = 0; k < p.n; ++k)
    rank[keyed[k].second] = k;
}

} // namespace ds::layout
