// SPDX-License-Identifier: Apache-2.0
//
// Declarations of the run functions in the REF rows of Kernels.def. All take any strides, need no
// workspace, and use one thread. The loader has checked operand types against the op's shape rule.
#pragma once

#include "kernels/Kernel.h"

namespace ds::ref {

#define REF(op, dtypes, run) const char *run(const DsLaunch *l, void *state);
#define REF_STATE(op, dtypes, run)                                                                 \
  REF(op, dtypes, run)                                                                             \
  const char *run##Prepare(const DsLaunch *, void **);                                             \
  void run##Destroy(void *);
#include "kernels/Kernels.def"

} // namespace ds::ref
