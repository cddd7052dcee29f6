// SPDX-License-Identifier: Apache-2.0
//
// Offsets for buffers with fixed lifetimes (static dynamic storage allocation): the smallest arena in which buffers that
// live at the same time do not overlap. Greedy first, then exact search, docs/memory.md says how. Limits
// are counted unless a time limit is given, so the same input gives the same offsets.
#pragma once

#include <cstdint>
#include <vector>

namespace ds {

/// A buffer in use from first up to and including last; times are any integers. The sum of all sizes, rounded up to
/// the alignment, must stay below 2^62.
struct PackItem {
  int64_t first, last;
  int64_t bytes;
  int64_t offset = 0;
};

struct PackLimits {
  /// Elementary steps of the exact search (a look at one buffer in one section), about 1 ns each.
  int64_t work = 100'000'000;
  double seconds = 0;   // wall time of the whole call; 0: none, so the result is deterministic
  int64_t capacity = 0; // stop at a height that fits; 0: find the smallest height
};

struct PackResult {
  int64_t height = 0; // bytes used
  int64_t load = 0;   // maximum over time of live bytes
  int64_t bound = 0;  // no packing is lower: the load, or what exhausted searches proved
  int64_t nodes = 0;  // of the exact search
  bool optimal() const { return height == bound; }
};

/// Sets the offsets of items, multiples of align from 0.
PackResult packIntervals(std::vector<PackItem> &items, int64_t align, const PackLimits &limits);
/// With the default limits; returns the height.
int64_t packIntervals(std::vector<PackItem> &items, int64_t align);

/// The maximum over time of live bytes, each rounded up to align: no packing is lower.
int64_t maxLoad(const std::vector<PackItem> &items, int64_t align);

} // namespace ds
