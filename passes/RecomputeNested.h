// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of checkpoints: for a chain of blocks whose inputs cannot all be kept, which of them are kept when, and which
// are computed again from an earlier one, more than once if it must be.
#pragma once

#include "passes/RecomputeChain.h"

#include <optional>

namespace ds {

/// A block of the chain, whose forward makes the input of the next one.
struct NestedBlock {
  std::vector<ChainOption>
      options; // to keep what its backward needs, from its forward on; peak is beside all that is kept
  double forward = 0;   // seconds of its forward, with the gathers of its weights
  int64_t out = 0;      // bytes of what it makes for the next block
  int64_t pass = 0;     // most bytes in its forward when it keeps nothing, beside what is kept
  bool through = false; // its forward can be repeated, and only the next block reads what it makes
};

/// What happens in order. The first forward phase is a part of it.
struct NestedStep {
  enum Kind { Forward, Backward } kind = Forward;
  int block = 0;
  int option = -1;   // what it keeps for its backward; -1: nothing, but its output if `keeps`
  bool keeps = true; // its output, until the backward of the next block
  bool operator==(const NestedStep &) const = default;
};

struct NestedPlan {
  double seconds = 0; // of all that runs more than once, and of what options repeat
  std::vector<NestedStep> steps;
};

/// The steps that take least time with at most `budget` bytes beside the chain's input; nothing if none fit. Exact among the
/// plans in which what is kept goes in the reverse order of its coming, with sizes rounded up to budget / levels.
std::optional<NestedPlan> nestedPlan(const std::vector<NestedBlock> &chain, int64_t budget,
                                     int64_t levels = 512);

} // namespace ds
