// SPDX-License-Identifier: Apache-2.0
//
// Declares what the CUDA rows of Kernels.def name.
#pragma once

#include "kernels/Kernel.h"

namespace ds::cuda {

#define CUDA(op, dtypes, run) const char *run(const DsLaunch *, void *);
#define CUDA_WORK(op, dtypes, run)                                                                 \
  CUDA(op, dtypes, run)                                                                            \
  size_t run##Work(const DsLaunch *);
#define CUDA_STATE(op, dtypes, run)                                                                \
  CUDA_WORK(op, dtypes, run)                                                                       \
  const char *run##Prepare(const DsLaunch *, void **);                                             \
  void run##Destroy(void *);                                                                       \
  const char *run##Note(void *);
#include "kernels/Kernels.def"

} // namespace ds::cuda
