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

} // namespace ds::test
