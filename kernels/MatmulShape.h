// SPDX-License-Identifier: Apache-2.0
//
// A matrix product with everything about its operands' layout: C[b,i,j] = sum over k of A[b,i,k] * B[b,k,j],
// with any strides (elements; 0 where a batch axis broadcasts).
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

#include <array>

namespace ds {

struct MatmulShape {
  int batchRank = 0;
  std::array<int64_t, kMaxRank> batch{}, batchA{}, batchB{}, batchC{}; // extents, strides
  int64_t m = 0, n = 0, k = 0;
  int64_t am = 0, ak = 0, bk = 0, bn = 0, cm = 0, cn = 0;
  bool swapped = false; // A is operand 1: C was column-major, and C^T = B^T A^T

  int64_t batches() const;
};

/// Transposes applied, batch axes merged and, where B is shared, folded into the rows.
const char *matmulShape(const DsLaunch &l, MatmulShape &s);

} // namespace ds
