// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files Offload*.cpp: what moves to host memory and nvme, decided before anything is rewritten.
#pragma once

#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ds {

inline constexpr char kOffloadPass[] = "offload";

struct OffloadPlan {
  llvm::SmallPtrSet<const Symbol *, 32> moved; // buckets that the host updates
  int64_t buffers = 4;                         // of them under way at once in @update
  Symbol *squares = nullptr;                   // the sum of squares of their gradients, as bins
};

/// Lets saved values of p wait for backward in host memory: those whose name or module path matches the regex, unless it is
/// empty, and those of the names.
void offloadActivations(Module &m, Program &p, const std::string &regex,
                        const std::vector<std::string> &names);

/// Rewrites @update for the buckets of the plan. Symbols have their spaces by then.
Status offloadUpdate(Module &m, const OffloadPlan &plan);

} // namespace ds
