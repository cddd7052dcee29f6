// SPDX-License-Identifier: Apache-2.0
//
// The forward phase as a chain of blocks with what each way to treat one keeps, needs and takes.
#pragma once

#include "passes/RecomputeChain.h"
#include "passes/RecomputeNested.h"
#include "passes/RecomputeOptions.h"

namespace ds {

/// The forward phase as a chain: repeated blocks in their order, and what stands before, between and behind them. What is
/// repeated is repeated within its block.
std::vector<Launches> recomputeBlocks(Program &p, const RecomputeModel &m);

struct BlockChain {
  std::vector<Launches> blocks;
  std::vector<int> classOf;                         // by block
  std::vector<std::vector<std::vector<bool>>> sets; // class, option: by position
  std::vector<std::vector<ChainOption>> options;    // block, option
  std::vector<std::pair<int, int>> backward,
      forward; // by block: its stretches of launches, half-open
  std::vector<int64_t>
      pass; // by block: most bytes in its forward, beside what is kept, when it repeats most

  BlockChain(std::vector<Launches> blocks, const RecomputeModel &m);

  /// What a choice repeats, by launch of the forward phase.
  std::vector<bool> repeated(const RecomputeModel &m, const std::vector<int> &choice) const;

private:
  void classify(const RecomputeModel &m);
  void stretches(const RecomputeModel &m);
  void measure(const RecomputeModel &m);
  ChainOption measured(const RecomputeModel &m, const RecomputeModel::Load &load,
                       const Launches &block, size_t b) const;
};

} // namespace ds
