// SPDX-License-Identifier: Apache-2.0
//
// A sweep over time. Live buffers do not overlap, so in order of offset only the two next to a new one can.
#include "passes/layout/LayoutCheck.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

namespace ds {

std::optional<LayoutFault> findFault(const std::vector<PackItem> &items) {
  constexpr int64_t kTop = int64_t(1) << 62;
  std::vector<int> byStart(items.size());
  std::iota(byStart.begin(), byStart.end(), 0);
  std::stable_sort(byStart.begin(), byStart.end(),
                   [&](int a, int b) { return items[a].first < items[b].first; });
  std::map<int64_t, int> live; // by offset
  using End = std::pair<int64_t, int>;
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends;
  for (int i : byStart) {
    const PackItem &x = items[i];
    if (x.offset < 0)
      return LayoutFault{LayoutFault::BelowZero, i, -1};
    if (x.bytes > kTop || x.offset > kTop - x.bytes)
      return LayoutFault{LayoutFault::TooHigh, i, -1};
    if (x.bytes == 0)
      continue;
    for (; !ends.empty() && ends.top().first < x.first; ends.pop())
      live.erase(items[ends.top().second].offset);
    auto above = live.lower_bound(x.offset);
    auto fault = [&](int j) {
      return LayoutFault{LayoutFault::Overlap, std::min(i, j), std::max(i, j)};
    };
    if (above != live.end() && above->first < x.offset + x.bytes)
      return fault(above->second);
    if (above != live.begin()) {
      auto below = std::prev(above);
      if (below->first + items[below->second].bytes > x.offset)
        return fault(below->second);
    }
    live.emplace_hint(above, x.offset, i);
    ends.emplace(x.last, i);
  }
  return std::nullopt;
}

} // namespace ds
