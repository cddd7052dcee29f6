// SPDX-License-Identifier: Apache-2.0
//
// Declares what the CUDA rows of Kernels.def name.
#pragma once

#include "kernels/Kernel.h"

namespace ds::cuda {

#define CUDA(op, dtypes, run) const char *run(const DsLaunch *, void *);
#include "kernels/Kernels.def"

} // namespace ds::cuda
