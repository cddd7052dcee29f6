// SPDX-License-Identifier: Apache-2.0
//
// The packing problem in the form that the algorithms work on: time is cut into sections, in units that
// divide every size.
#pragma once

#include "passes/layout/Layout.h"

namespace ds::layout {

/// A section is a maximal set of buffers that are alive together, in order of time; only these constrain the
/// offsets. Buffers of 0 bytes are left out.
struct Problem {
  int n = 0, sections = 0;
  int64_t unit = 1;             // bytes; the greatest common divisor of all sizes
  std::vector<int> first, last; // sections of each buffer, closed
  std::vector<int64_t> size;    // in units
  std::vector<int> source;      // index of the item
  std::vector<int64_t> load;    // per section, in units
  std::vector<int64_t> peak;    // per buffer: the highest load of its sections
  int64_t maxLoad = 0;          // in units

  int width(int i) const { return last[i] - first[i] + 1; }
};

Problem makeProblem(const std::vector<PackItem> &items, int64_t align);

/// A placement: one offset per buffer of the problem, in units.
struct Packing {
  std::vector<int64_t> offset;
  int64_t height = INT64_MAX;
};

/// The best of greedy first-fit orders and rounds of repair; stops at `enough`. budget counts comparisons of pairs.
Packing packGreedy(const Problem &p, int64_t enough, int64_t budget);

} // namespace ds::layout
