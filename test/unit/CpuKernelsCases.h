// SPDX-License-Identifier: Apache-2.0
//
// What the parity test runs for each op that has a CPU row: shapes with odd sizes, broadcasting, empty axes and
// strided operands, and the allowance |x - ref| <= atol + rtol * |ref|.
#pragma once

#include "test/unit/KernelHarness.h"

namespace ds::test {

struct Allowance {
  double atol = 0, rtol = 0; // both 0: equal bits (any NaN equals any NaN)
};

/// The cases for an op; empty for an op this list does not know.
std::vector<KernelCase> casesOf(const std::string &op);
Allowance allowanceOf(const std::string &op);

/// The case with result 0 over each operand that it may overwrite, where both have one layout.
std::vector<KernelCase> inPlace(const KernelCase &c);

/// The case with its f32 tensors in a 16-bit type, but for those that the op keeps in f32; its results' types are the
/// shape rule's. False if it has none, or an operand of more than `largest` elements.
bool inHalf(KernelCase &c, DType half, int64_t largest = 40000);
/// allowanceOf, and, where that is not exact, one unit in the last place of the type.
Allowance halfAllowanceOf(const std::string &op, DType half);

/// A sum that stands before a normalisation or behind its gradient, and the rest, by kernels of their own.
RunResult runApart(KernelTable table, const KernelCase &c, const RunOptions &o = {});

} // namespace ds::test
