// SPDX-License-Identifier: Apache-2.0
#include "passes/layout/Search.h"

#include <algorithm>

namespace ds::layout {

Outcome Search::run(int64_t cap, int order, int64_t fails, int64_t work) {
  reset();
  setOrder(order);
  capacity = cap;
  failsLeft = fails;
  limit = steps + std::min(work, INT64_MAX - steps);
  touch(0, p.sections - 1);
  if (!propagate())
    return Outcome::Exhausted;
  return solve(0, p.sections - 1);
}

Packing Search::packing() const {
  Packing out;
  out.offset = offset;
  out.height = 0;
  for (int i = 0; i < p.n; ++i)
    out.height = std::max(out.height, offset[i] + p.size[i]);
  return out;
}

bool Search::outOfBudget() {
  if (deadline != Clock::time_point() && nodes % 256 == 0 && Clock::now() > deadline)
    timedOut = true;
  return timedOut || steps > limit || failsLeft < 0;
}

// Packs what is unplaced in sections a to b: each part that no unplaced buffer connects to the next by itself.
Outcome Search::solve(int a, int b) {
  std::vector<std::pair<int, int>> parts;
  for (int s = a; s <= b; ++s) {
    if (count[s] == 0)
      continue;
    int from = s;
    while (s < b && crossing[s] > 0)
      ++s;
    parts.emplace_back(from, s);
  }
  // What fails should fail early: short parts first.
  std::stable_sort(parts.begin(), parts.end(),
                   [](auto x, auto y) { return x.second - x.first < y.second - y.first; });
  for (auto [from, to] : parts)
    if (Outcome o = branch(from, to); o != Outcome::Found)
      return o;
  return Outcome::Found;
}

Outcome Search::branch(int a, int b) {
  ++nodes;
  if (outOfBudget() || depth > kDeepest)
    return Outcome::Limit;
  StateKey key = keyOf(a, b);
  if (failures.has(key, capacity))
    return Outcome::Exhausted;

  int s = chooseSection(a, b);
  size_t mark = trail.size(), base = candidates.size();
  pushCandidates(s);
  size_t end = candidates.size();
  int64_t at = floor[s];
  Outcome result = Outcome::Exhausted;
  for (size_t k = base; k <= end && result == Outcome::Exhausted; ++k) {
    bool fits = k < end ? place(candidates[k], at) : leaveFree(s);
    ++depth;
    if (fits)
      result = solve(a, b);
    --depth;
    if (result == Outcome::Exhausted)
      undo(mark);
  }
  candidates.resize(base);
  if (result == Outcome::Exhausted) {
    failures.add(key, capacity);
    --failsLeft;
  }
  return result;
}

// The section with the fewest buffers that can lie on its floor, among the local minima of the skyline.
int Search::chooseSection(int a, int b) const {
  int best = -1, bestOptions = INT32_MAX;
  int64_t bestSlack = 0;
  for (int s = a; s <= b;) {
    int e = s;
    while (e < b && floor[e + 1] == floor[s])
      ++e;
    bool lowest = (s == a || floor[s - 1] > floor[s]) && (e == b || floor[e + 1] > floor[s]);
    for (; s <= e; ++s) {
      if (!lowest)
        continue;
      int64_t slack = capacity - total[s] - floor[s];
      int options = ready[s] + (slack > 0);
      if (options < bestOptions || (options == bestOptions && slack < bestSlack)) {
        best = s;
        bestOptions = options;
        bestSlack = slack;
      }
    }
  }
  return best;
}

// Whether something below the buffer holds it up at its lowest offset.
bool Search::isSupported(int i) const {
  if (low[i] == 0)
    return true;
  for (int s = p.first[i]; s <= p.last[i]; ++s)
    if (top[s] == low[i])
      return true;
  return false;
}

// How well a buffer on the floor of a valley fits there: 1 for each side that is a wall at least as high as the buffer,
// 2 if they end level.
int Search::contactOf(int i) const {
  int64_t end = low[i] + p.size[i];
  auto side = [&](int s) {
    if (s < 0 || s >= p.sections || count[s] == 0)
      return 1;
    return floor[s] == end ? 2 : int(floor[s] > end);
  };
  return side(p.first[i] - 1) + side(p.last[i] + 1);
}

void Search::pushCandidates(int s) {
  size_t base = candidates.size();
  for (int k = 0; k < count[s]; ++k) {
    int i = ids[begin[s] + k];
    if (low[i] == floor[s] && (twin[i] < 0 || placed[twin[i]]) && isSupported(i))
      candidates.push_back(i);
  }
  for (size_t k = base; k < candidates.size(); ++k)
    contact[candidates[k]] = byContact ? contactOf(candidates[k]) : 0;
  std::sort(candidates.begin() + base, candidates.end(), [&](int x, int y) {
    return std::pair(-contact[x], rank[x]) < std::pair(-contact[y], rank[y]);
  });
}

// No buffer lies on the floor of s. Those that could have must then lie on one that is not placed yet.
bool Search::leaveFree(int s) {
  if (floor[s] + total[s] >= capacity)
    return false;
  size_t base = candidates.size();
  for (int k = 0; k < count[s]; ++k)
    if (int i = ids[begin[s] + k]; low[i] == floor[s])
      candidates.push_back(i);
  auto excluded = [&](int i) { return low[i] == floor[s] && p.first[i] <= s && s <= p.last[i]; };
  std::vector<int64_t> least; // the lowest top of those that could hold it up
  for (size_t k = base; k < candidates.size(); ++k) {
    int64_t l = INT64_MAX / 2;
    for (int t = p.first[candidates[k]]; t <= p.last[candidates[k]]; ++t) {
      for (int m = 0; m < count[t]; ++m)
        if (int j = ids[begin[t] + m]; !excluded(j))
          l = std::min(l, low[j] + p.size[j]);
      steps += count[t];
    }
    least.push_back(l);
  }
  // Or it lies on another one of them.
  size_t n = least.size();
  std::vector<int64_t> to(n);
  for (size_t k = 0; k < n; ++k) {
    to[k] = least[k];
    for (size_t m = 0; m < n; ++m)
      if (m != k)
        to[k] = std::min(to[k], least[m] + p.size[candidates[base + m]]);
  }
  for (size_t k = 0; k < n; ++k)
    raise(candidates[base + k], to[k]);
  candidates.resize(base);
  return propagate();
}

StateKey Search::keyOf(int a, int b) {
  StateKey key;
  steps += firstOf[b + 1] - firstOf[a] + b - a;
  for (int k = firstOf[a]; k < firstOf[b + 1]; ++k)
    if (int i = byFirst[k]; !placed[i])
      key.add(static_cast<uint64_t>(low[i]) * static_cast<uint64_t>(p.n) + i);
  for (int s = a; s <= b; ++s)
    if (top[s] == floor[s])
      key.add(~static_cast<uint64_t>(s));
  return key;
}

} // namespace ds::layout
