// SPDX-License-Identifier: Apache-2.0
//
// Declarations of the kernels that CPU rows name; included by the files that define them, because a const
// object has external linkage only where it was declared so before.
#pragma once

#include "kernels/cpu/Cpu.h"

namespace ds::cpu {

#define CPU(op, dtypes, kernel) extern const KernelFns kernel;
#include "kernels/Kernels.def"

} // namespace ds::cpu
