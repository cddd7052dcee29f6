// SPDX-License-Identifier: Apache-2.0
#include "kernels/Registry.h"

#include "kernels/cpu/Kernels.h"

namespace ds {

KernelTable cpuKernels() {
  static const DsKernel rows[] = {
#define CPU(op, dtypes, kernel)                                                                    \
  {op,     dtypes, cpu::kernel.prepare, cpu::kernel.run, cpu::kernel.destroy, cpu::kernel.work,    \
   nullptr},
#include "kernels/Kernels.def"
  };
  return {rows, sizeof(rows) / sizeof(rows[0])};
}

} // namespace ds
