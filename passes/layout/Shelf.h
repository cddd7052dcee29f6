// SPDX-License-Identifier: Apache-2.0
//
// Placed buffers in order of offset, of which those that live at some time are visited. Most buffers of a large plan live
// shortly: they are kept by block of time, apart from those that live long, so that a visit meets few that it does not want.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace ds::layout {

struct Placed {
  int64_t begin, end; // half open
  int first, last;    // sections, closed
};

class Shelf {
public:
  explicit Shelf(int sections) : blockSections(sections / kBlocks + 1), blocks(kBlocks) {}

  void clear() {
    all.clear();
    longLived.clear();
    for (std::vector<Placed> &b : blocks)
      b.clear();
  }

  void add(const Placed &p) {
    addToAll(p);
    int from = p.first / blockSections, to = p.last / blockSections;
    if (to - from >= kShort)
      insert(longLived, p);
    else
      for (int b = from; b <= to; ++b)
        insert(blocks[b], p);
  }

  /// Calls fn with those that live in [first, last], by increasing begin, until it returns false; some twice. Returns how
  /// many were looked at.
  template <typename F> int64_t visit(int first, int last, F fn) const {
    int64_t steps = 0;
    auto meets = [&](const Placed &p) {
      ++steps;
      return p.first <= last && p.last >= first;
    };
    int from = first / blockSections, to = last / blockSections;
    if (to - from >= kShort) {
      for (const std::vector<Placed> &part : all)
        for (const Placed &p : part)
          if (meets(p) && !fn(p))
            return steps;
      return steps;
    }
    struct Source {
      const Placed *at, *end;
    };
    std::array<Source, kShort + 1> sources;
    int n = 0;
    auto open = [&](const std::vector<Placed> &list) {
      Source s{list.data(), list.data() + list.size()};
      while (s.at != s.end && !meets(*s.at))
        ++s.at;
      if (s.at != s.end)
        sources[n++] = s;
    };
    open(longLived);
    for (int b = from; b <= to; ++b)
      open(blocks[b]);
    while (n > 0) {
      int next = 0;
      for (int k = 1; k < n; ++k)
        if (sources[k].at->begin < sources[next].at->begin)
          next = k;
      Source &s = sources[next];
      if (!fn(*s.at))
        break;
      do
        ++s.at;
      while (s.at != s.end && !meets(*s.at));
      if (s.at == s.end)
        s = sources[--n];
    }
    return steps;
  }

private:
  static constexpr int kBlocks = 128, kShort = 2; // lives of fewer blocks are short
  static constexpr size_t kPart = 512;

  static void insert(std::vector<Placed> &list, const Placed &p) {
    list.insert(std::upper_bound(list.begin(), list.end(), p.begin,
                                 [](int64_t v, const Placed &o) { return v < o.begin; }),
                p);
  }
  // Parts stay small: an insertion moves few.
  void addToAll(const Placed &p) {
    auto part = std::upper_bound(all.begin(), all.end(), p.begin, [](int64_t v, const auto &list) {
      return v < list.front().begin;
    });
    if (all.empty())
      part = all.insert(part, {p});
    else {
      if (part != all.begin())
        --part;
      insert(*part, p);
    }
    if (part->size() > kPart) {
      std::vector<Placed> half(part->begin() + kPart / 2, part->end());
      part->resize(kPart / 2);
      all.insert(part + 1, std::move(half));
    }
  }

  int blockSections;
  std::vector<std::vector<Placed>> all; // not empty ones
  std::vector<Placed> longLived;
  std::vector<std::vector<Placed>> blocks; // short lives, in each block that they touch
};

} // namespace ds::layout
