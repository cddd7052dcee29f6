// SPDX-License-Identifier: Apache-2.0
//
// The state of the exact search: placing, inference, and taking both back.
#include "passes/layout/Search.h"

#include <algorithm>
#include <bit>

namespace ds::layout {

void Search::reset() {
  undo(0);
  std::fill(low.begin(), low.end(), 0);
  std::fill(dirty.begin(), dirty.end(), 0);
  candidates.clear();
  depth = 0;
}

void Search::touch(int first, int last) {
  firstDirty = std::min(firstDirty, static_cast<size_t>(first / 64));
  for (int s = first; s <= last;) {
    int word = s / 64, end = std::min(last, word * 64 + 63);
    int bits = end - s + 1;
    uint64_t mask = bits == 64 ? ~uint64_t(0) : ((uint64_t(1) << bits) - 1);
    dirty[word] |= mask << (s % 64);
    s = end + 1;
  }
}

void Search::raise(int i, int64_t to) {
  trail.push_back({Undo::Low, i, low[i]});
  low[i] = to;
  touch(p.first[i], p.last[i]);
}

// Places a buffer on the floor and infers what follows; false if nothing fits any more.
bool Search::place(int i, int64_t at) {
  int64_t newTop = at + p.size[i];
  trail.push_back({Undo::Place, i, 0});
  placed[i] = 1;
  offset[i] = at;
  int *where = &pos[posBase[i]];
  for (int s = p.first[i]; s <= p.last[i]; ++s) {
    trail.push_back({Undo::Top, s, top[s]});
    top[s] = newTop;
    total[s] -= p.size[i];
    crossing[s] -= s < p.last[i];
    // To the end of the list and out of it; undo puts it back by counting it again.
    int *list = &ids[begin[s]];
    int end = --count[s], at = where[s - p.first[i]], other = list[end];
    std::swap(list[at], list[end]);
    pos[posBase[other] + s - p.first[other]] = at;
    where[s - p.first[i]] = end;
    for (int k = 0; k < end; ++k)
      if (low[list[k]] < newTop)
        raise(list[k], newTop);
    steps += end;
  }
  touch(p.first[i], p.last[i]);
  return propagate();
}

void Search::undo(size_t mark) {
  while (trail.size() > mark) {
    Undo u = trail.back();
    trail.pop_back();
    switch (u.kind) {
    case Undo::Low:
      low[u.index] = u.old;
      break;
    case Undo::Floor:
      floor[u.index] = u.old;
      break;
    case Undo::Ready:
      ready[u.index] = static_cast<int>(u.old);
      break;
    case Undo::Top:
      top[u.index] = u.old;
      break;
    case Undo::Place:
      placed[u.index] = 0;
      for (int s = p.first[u.index]; s <= p.last[u.index]; ++s) {
        ++count[s];
        total[s] += p.size[u.index];
        crossing[s] += s < p.last[u.index];
      }
      break;
    }
  }
}

bool Search::propagate() {
  for (size_t word = firstDirty; word < dirty.size(); word = firstDirty) {
    if (!dirty[word]) {
      ++firstDirty;
      continue;
    }
    int s = static_cast<int>(word) * 64 + std::countr_zero(dirty[word]);
    dirty[word] &= dirty[word] - 1;
    if (!examine(s)) {
      std::fill(dirty.begin(), dirty.end(), 0);
      return false;
    }
  }
  return true;
}

// The buffers of a section are jobs on one machine: low is when each can start, the capacity when all must have ended.
// Raises the floor to the lowest start. A buffer whose start leaves too little room for all the others is not the
// first; it starts at the end of one that can be.
bool Search::examine(int s) {
  int n = count[s];
  if (n == 0)
    return true;
  steps += n;
  const int *list = &ids[begin[s]];
  int64_t least = INT64_MAX, most = 0;
  int onFloor = 0;
  for (int k = 0; k < n; ++k) {
    int64_t l = low[list[k]];
    onFloor = l < least ? 1 : onFloor + (l == least);
    least = std::min(least, l);
    most = std::max(most, l);
  }
  if (least != floor[s]) {
    trail.push_back({Undo::Floor, s, floor[s]});
    floor[s] = least;
  }
  if (onFloor != ready[s]) {
    trail.push_back({Undo::Ready, s, ready[s]});
    ready[s] = onFloor;
  }
  int64_t latestFirst = capacity - total[s];
  if (least > latestFirst)
    return false;
  if (most <= latestFirst)
    return true;
  int64_t end = INT64_MAX;
  for (int k = 0; k < n; ++k)
    if (low[list[k]] <= latestFirst)
      end = std::min(end, low[list[k]] + p.size[list[k]]);
  // The late ones together must fit behind the first of them.
  int64_t late = 0, start = INT64_MAX;
  for (int k = 0; k < n; ++k) {
    int i = list[k];
    if (low[i] <= latestFirst)
      continue;
    if (low[i] < end)
      raise(i, end);
    late += p.size[i];
    start = std::min(start, low[i]);
  }
  return start + late <= capacity;
}

} // namespace ds::layout
