// SPDX-License-Identifier: Apache-2.0
//
// Exact search: is there a packing of at most a given height? Depth first, one buffer at a time, bottom up: every
// placed buffer lies below every unplaced one that it meets, so the placed ones are a skyline, one floor per section.
// Ideas of MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
// Learning", ASPLOS 2023): sections, lowest offsets, floors inferred from them, splitting at sections that no unplaced
// buffer crosses. Ours: the branching below, not-first inference as in job-shop scheduling, and a table of failures.
#pragma once

#include "passes/layout/Failures.h"
#include "passes/layout/Problem.h"

#include <chrono>

namespace ds::layout {

enum class Outcome { Found, Exhausted, Limit };

/// Every packing can be made such that each buffer lies at 0 or on another one; only such packings are searched.
/// A node picks a section at a local minimum of the skyline and tries each buffer that can lie right on its floor, and then
/// that none does: each packing is in one branch only.
class Search {
public:
  using Clock = std::chrono::steady_clock;
  /// No later than deadline, if it is not the epoch.
  Search(const Problem &p, Clock::time_point deadline);

  /// Searches for a packing of height at most `capacity`, through at most `fails` dead ends and `work` steps. `order` chooses which buffer is
  /// tried first; what was proved in one run helps the next ones.
  Outcome run(int64_t capacity, int order, int64_t fails, int64_t work);
  /// After Found: the packing.
  Packing packing() const;

  static constexpr int kKeys = 5, kOrders = 2 * kKeys; // distinct orders before blurred ones
  int64_t nodes = 0, steps = 0;
  bool timedOut = false;

private:
  struct Undo {
    enum Kind : int32_t { Low, Floor, Ready, Top, Place } kind;
    int32_t index;
    int64_t old;
  };

  void setOrder(int order);
  // SearchState.cpp
  void reset();
  void raise(int i, int64_t to);
  bool place(int i, int64_t at);
  bool propagate();
  bool examine(int s);
  void undo(size_t mark);
  void touch(int first, int last);
  // Search.cpp
  Outcome solve(int a, int b);
  Outcome branch(int a, int b);
  int chooseSection(int a, int b) const;
  void pushCandidates(int s);
  bool isSupported(int i) const;
  int contactOf(int i) const;
  bool leaveFree(int s);
  bool outOfBudget();
  StateKey keyOf(int a, int b);

  const Problem &p;
  const Clock::time_point deadline;
  static constexpr int kDeepest =
      7000; // about 1 KiB of stack each under sanitizers, a quarter otherwise
  int depth = 0;
  int64_t capacity = 0, failsLeft = 0, limit = 0;

  // Per section: unplaced buffers (ids[begin[s]..] of which the first count[s]), their bytes, the lowest offset
  // any of them can have and how many can have it, the top of the placed ones, and how many unplaced ones also live
  // in s + 1.
  std::vector<int> begin, ids, count, ready, crossing;
  std::vector<int64_t> total, floor, top;
  // Per buffer: the lowest offset it can have, its offset once placed, where it is in each section's list.
  std::vector<int64_t> low, offset;
  std::vector<char> placed;
  std::vector<int> posBase, pos;
  std::vector<int> twin; // an equal buffer that goes first, or -1
  std::vector<int> byFirst,
      firstOf; // buffers in order of first section; index of each section's first one
  std::vector<int> rank, contact; // what is tried first: more contact, then lower rank
  bool byContact = true;
  std::vector<uint64_t> dirty; // sections to examine, as bits
  size_t firstDirty = 0;       // no word before it has any
  std::vector<Undo> trail;
  std::vector<int> candidates; // of all nodes on the path
  Failures failures;
};

} // namespace ds::layout
