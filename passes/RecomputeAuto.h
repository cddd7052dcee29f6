// SPDX-License-Identifier: Apache-2.0
//
// --recompute auto: the forward launches that backward repeats, so that the micro-batch fits a number of bytes at the least
// time. Blocks of equal structure share their options (RecomputeOptions.h); which block takes which is decided over the chain
// of blocks (RecomputeChain.h); the whole choice is checked launch by launch (RecomputeModel.h).
#pragma once

#include "frontend/Config.h"
#include "passes/RecomputeBlocks.h"

namespace ds {

class RecomputeChooser {
public:
  /// s: a plan without recomputation, with lives of its buffers.
  RecomputeChooser(Program &p, const Schedule &s, const Rates &r);
  RecomputeChooser(RecomputeModel m, std::vector<Launches> blocks);
  ~RecomputeChooser();

  struct Choice {
    std::vector<std::string> values;    // first results of the launches
    std::vector<RecomputeSweep> sweeps; // of chooseNested
    int64_t peak = 0;                   // most live bytes of temporaries
    double seconds = 0;                 // of what is repeated
    bool fits = false;                  // peak <= bytes
  };
  /// The fastest choice found whose temporaries need at most `bytes`; if there is none, one that needs least.
  Choice choose(int64_t bytes) const;

  /// With blocks' inputs computed again, too (RecomputeNested.h), by estimates; `fits` unless there is no such choice. addUp:
  /// gathers do not hide behind launches.
  Choice chooseNested(int64_t bytes, bool addUp) const;

private:
  RecomputeModel model;
  std::unique_ptr<BlockChain> chain;
};

} // namespace ds
