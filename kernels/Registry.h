// SPDX-License-Identifier: Apache-2.0
//
// The kernels of each device, expanded from Kernels.def, and the lookup the loader uses.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

namespace ds {

struct KernelTable {
  const DsKernel *rows;
  size_t count;
};

KernelTable refKernels(); // kernels/ref/Registry.cpp
KernelTable cpuKernels(); // kernels/cpu/Registry.cpp; exists only under DS_HAVE_CPU_DEVICE

/// The row for an op and the dtype of its operand 0 (of result 0 for ops without operands), or null.
const DsKernel *findKernel(KernelTable table, const char *op, DType first);

} // namespace ds
