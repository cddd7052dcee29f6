// SPDX-License-Identifier: Apache-2.0
//
// Kernels of a device with memory of its own against `ref`: the cases, what they may differ by, and one comparison. The emulated
// tests and tools/gpu_check on a GPU run the same.
#pragma once

#include "test/unit/CpuKernelsCases.h"

namespace ds::test {

bool isHalf(DType t);
bool isRowMajor(const KernelCase &c);

/// The row of the case's op and type, or null.
const DsKernel *kernelOf(KernelTable table, const KernelCase &c);

/// Cases of an op, row-major ones in 16-bit types, too; only those whose tensors have at most `largest` elements each.
std::vector<KernelCase> deviceCases(const std::string &op, int64_t largest);

/// Whether the op's kernel for 16-bit types is another one than for f32.
bool hasHalfKernel(const std::string &op);

/// Sums are in f32 in a tree's order; ref's are in f64.
Allowance deviceAllowance(const KernelCase &c);

/// The first difference beyond what is allowed, or "".
std::string difference(const KernelCase &c, const RunResult &want, const RunResult &got,
                       Allowance a);

struct ParityResult {
  bool ran = false; // false: the row does not take the case's type or strides
  std::string difference;
  RunResult got = {}; // of the device
};
/// The device's row, also with its result over an operand, against ref.
ParityResult compareWithRef(KernelTable device, const KernelCase &c, const RunOptions &o);

} // namespace ds::test
