// SPDX-License-Identifier: Apache-2.0
//
// Buckets that are not where compute needs them come there run by run: before the first use in a phase, for as long as
// no other such bucket is used. The last ones of forward may stay for backward, which needs them first.
#pragma once

#include "ir/GraphBuilder.h"

namespace ds {

/// Replaces views of the buckets that `applies` to by views of what `bring` makes, a whole bucket on the device. `bring` gets a
/// builder that stands before the first use of a run; once per run. `pass`: whose work it is. `keep`: how
/// many of the buckets that forward uses last stay for backward.
///   use (view @l0 at 0) ...   ->   %l0.full = all_gather @l0; use (view %l0.full at 0) ...
void placeAtUse(Module &m, Program &p, const char *pass, int64_t keep,
                llvm::function_ref<bool(const Symbol &)> applies,
                llvm::function_ref<Value *(Builder &, Symbol &)> bring);

} // namespace ds
