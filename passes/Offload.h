// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files Offload*.cpp: what moves to host memory and nvme, decided before anything is rewritten.
#pragma once

#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

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

/// The order of n updates on the host, of which `buffers` are under way at once: calls what each needs, does and leaves.
/// In the order of the list a transfer's staging memory lives from what fills it to what empties it. So reads come some
/// updates ahead of their optimizer and what it leaves goes one behind, without reads some.
template <typename Before, typename At, typename Behind>
void inUpdateOrder(int64_t n, int64_t buffers, bool reads, Before before, At at, Behind leave) {
  int64_t behind = std::clamp<int64_t>(buffers - 1, 0, reads ? 1 : n),
          ahead = std::max<int64_t>(0, buffers - 1 - behind);
  for (int64_t t = -ahead; t < n + behind; ++t) {
    if (t + ahead < n)
      before(t + ahead);
    if (t >= 0 && t < n)
      at(t);
    if (t - behind >= 0 && t - behind < n)
      leave(t - behind);
  }
}

} // namespace ds
