// SPDX-License-Identifier: Apache-2.0
#include "passes/layout/Problem.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace ds {

namespace {

int64_t roundUp(int64_t v, int64_t align) { return (v + align - 1) / align * align; }

// Ends sort before starts at the same time: lives [1, 2] and [3, 4] do not meet.
struct Event {
  int64_t time;
  int item;
  bool starts;
  bool operator<(const Event &o) const {
    return std::tuple(time, starts, item) < std::tuple(o.time, o.starts, o.item);
  }
};

} // namespace

int64_t maxLoad(const std::vector<PackItem> &items, int64_t align) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const PackItem &i : items) {
    changes.emplace_back(i.first, roundUp(i.bytes, align));
    changes.emplace_back(i.last + 1, -roundUp(i.bytes, align));
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, peak = 0;
  for (auto [time, bytes] : changes)
    peak = std::max(peak, live += bytes);
  return peak;
}

namespace layout {

// A new section begins with the first start after an end; between these no set of live buffers is maximal.
static void cutIntoSections(const std::vector<Event> &events, Problem &p) {
  bool ended = true;
  int section = -1;
  for (const Event &e : events) {
    if (e.starts && ended)
      ++section;
    ended = !e.starts;
    (e.starts ? p.first : p.last)[e.item] = section;
  }
  p.sections = section + 1;
}

// Maxima of ranges from maxima over powers of two, so that long lives cost no more than short ones.
static void setPeaks(Problem &p) {
  std::vector<std::vector<int64_t>> most = {p.load};
  for (int half = 1; 2 * half <= p.sections; half *= 2) {
    const std::vector<int64_t> &below = most.back();
    std::vector<int64_t> level(p.sections - 2 * half + 1);
    for (size_t s = 0; s < level.size(); ++s)
      level[s] = std::max(below[s], below[s + half]);
    most.push_back(std::move(level));
  }
  for (int i = 0; i < p.n; ++i) {
    int power = std::bit_width(static_cast<unsigned>(p.width(i))) - 1;
    const std::vector<int64_t> &level = most[power];
    p.peak.push_back(std::max(level[p.first[i]], level[p.last[i] + 1 - (1 << power)]));
  }
}

Problem makeProblem(const std::vector<PackItem> &items, int64_t align) {
  Problem p;
  std::vector<Event> events;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0)
      continue;
    events.push_back({items[i].first, p.n, true});
    events.push_back({items[i].last + 1, p.n, false});
    p.source.push_back(static_cast<int>(i));
    p.size.push_back(roundUp(items[i].bytes, align));
    ++p.n;
  }
  std::sort(events.begin(), events.end());
  p.first.resize(p.n);
  p.last.resize(p.n);
  cutIntoSections(events, p);

  p.unit = 0;
  for (int64_t s : p.size)
    p.unit = std::gcd(p.unit, s);
  p.unit = std::max<int64_t>(p.unit, 1);
  std::vector<int64_t> change(p.sections + 1);
  for (int i = 0; i < p.n; ++i) {
    p.size[i] /= p.unit;
    change[p.first[i]] += p.size[i];
    change[p.last[i] + 1] -= p.size[i];
  }
  int64_t live = 0;
  for (int s = 0; s < p.sections; ++s) {
    p.load.push_back(live += change[s]);
    p.maxLoad = std::max(p.maxLoad, live);
  }
  setPeaks(p);
  return p;
}

} // namespace layout

} // namespace ds
