// SPDX-License-Identifier: Apache-2.0
//
// What each block of a chain keeps, so that every block's backward fits a budget and the time added is least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ds {

/// One way to treat a block.
struct ChainOption {
  int64_t saved = 0; // bytes that it keeps from its forward to its backward
  int64_t peak = 0; // most bytes in its forward and backward, beside what the blocks before it keep
  double seconds = 0;
};

/// The option of every block, such that for every block what the blocks before it keep and its own peak stay within the budget,
/// at the least sum of seconds; of equal ones the least kept. Empty if there is none. Exact, unless a prefix of the chain has
/// more than `states` sums that matter, or four times as many of which most do not: then of those that are nearly equal only the
/// fastest is followed.
std::vector<int> assignOptions(const std::vector<std::vector<ChainOption>> &chain, int64_t budget,
                               size_t states = 4096);

/// The least budget for which there is an assignment.
int64_t leastBudget(const std::vector<std::vector<ChainOption>> &chain);

} // namespace ds
