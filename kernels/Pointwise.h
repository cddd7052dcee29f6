// SPDX-License-Identifier: Apache-2.0
//
// The body of a pointwise launch, as its kernels read it.
#pragma once

#include "ir/PointwiseBody.h"
#include "kernels/Kernel.h"

#include <vector>

namespace ds {

struct PointwiseLaunch {
  PointwiseBody body;
  std::vector<DType> types; // of the operands, then of the steps

  DType typeOf(int value) const { return types[static_cast<size_t>(value)]; }
  DType stepType(size_t i) const { return types[static_cast<size_t>(body.operands) + i]; }
};

/// Null, or what is wrong with the launch.
const char *readPointwise(const DsLaunch &l, PointwiseLaunch &out);

} // namespace ds
