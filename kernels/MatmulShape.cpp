// SPDX-License-Identifier: Apache-2.0
#include "kernels/MatmulShape.h"

#include <algorithm>
#include <utility>

namespace ds {

int64_t MatmulShape::batches() const {
  int64_t n = 1;
  for (int i = 0; i < batchRank; ++i)
    n *= batch[i];
  return n;
}

// An extent of 1 leaves its stride free; give it the value that makes the matrix row-major, or, where the
// other axis is not contiguous, column-major.
static void tidy(int64_t rows, int64_t cols, int64_t &rowStride, int64_t &colStride) {
  if (rows == 1)
    rowStride = colStride == 1 ? std::max<int64_t>(cols, 1) : 1;
  else if (cols == 1)
    colStride = rowStride == 1 ? rows : 1;
}

const char *matmulShape(const DsLaunch &l, MatmulShape &s) {
  const DsTensor &a = l.ins[0], &b = l.ins[1], &c = l.outs[0];
  const bool ta = flag(l, "trans_a"), tb = flag(l, "trans_b");
  auto last = [](const DsTensor &t, const int64_t *list, int back) { return list[t.rank - back]; };
  s.m = last(c, c.dims, 2);
  s.n = last(c, c.dims, 1);
  s.k = last(a, a.dims, ta ? 2 : 1);
  s.am = last(a, a.strides, ta ? 1 : 2);
  s.ak = last(a, a.strides, ta ? 2 : 1);
  s.bk = last(b, b.strides, tb ? 1 : 2);
  s.bn = last(b, b.strides, tb ? 2 : 1);
  s.cm = last(c, c.strides, 2);
  s.cn = last(c, c.strides, 1);

  if (c.rank - 2 > kMaxRank)
    return "more than 16 axes";
  auto broadcast = [&](const DsTensor &t, int axis) {
    int own = axis - (c.rank - t.rank);
    return own < 0 || t.dims[own] == 1 ? 0 : t.strides[own];
  };
  for (int i = 0; i < c.rank - 2; ++i) {
    int64_t extent = c.dims[i], strideA = broadcast(a, i), strideB = broadcast(b, i);
    if (extent == 1)
      continue;
    int top = s.batchRank - 1;
    bool merges = top >= 0 && s.batchA[top] == strideA * extent &&
                  s.batchB[top] == strideB * extent && s.batchC[top] == c.strides[i] * extent;
    if (!merges) {
      top = s.batchRank++;
      s.batch[top] = 1;
    }
    s.batch[top] *= extent;
    s.batchA[top] = strideA;
    s.batchB[top] = strideB;
    s.batchC[top] = c.strides[i];
  }
  if (s.batchRank == 1 && s.batchB[0] == 0 &&
      (s.m == 1 || (s.batchA[0] == s.m * s.am && s.batchC[0] == s.m * s.cm))) {
    if (s.m == 1) {
      s.am = s.batchA[0];
      s.cm = s.batchC[0];
    }
    s.m *= s.batch[0];
    s.batchRank = 0;
  }
  tidy(s.m, s.k, s.am, s.ak);
  tidy(s.k, s.n, s.bk, s.bn);
  tidy(s.m, s.n, s.cm, s.cn);
  if (s.cn != 1 && s.cm == 1) {
    s.swapped = true;
    std::swap(s.m, s.n);
    std::swap(s.cm, s.cn);
    std::swap(s.am, s.bn);
    std::swap(s.ak, s.bk);
    std::swap(s.batchA, s.batchB);
  }
  return nullptr;
}

} // namespace ds
