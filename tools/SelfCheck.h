// SPDX-License-Identifier: Apache-2.0
//
// dsexec --self-check: a run that trusts nothing it can look at.
#pragma once

#include "runtime/Trainer.h"

#include <optional>

namespace ds {

struct SelfCheckRuns {
  Schedule plan;
  Device device;
  RunOptions options;
  int64_t updates = 2;
  std::optional<Schedule> reference; // the same training at stage 0 on one rank, or none
};

/// Runs the plan three times for some updates, prints what it does to standard output, and fails with an internal
/// error at the first thing that is not as the plan says:
///   1. every instruction on its own under a MemoryWatch;
///   2. as always, with all streams, while allocations are counted: the same bits as 1;
///   3. against the reference: losses and gradient norms agree up to the order of sums.
Status selfCheck(SelfCheckRuns runs);

} // namespace ds
