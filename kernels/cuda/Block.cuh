// SPDX-License-Identifier: Apache-2.0
//
// Sums and maxima over a block of kBlock threads, in one fixed order: lanes by halves, then warps by halves. And the rows that
// normalisations give to blocks.
#pragma once

#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

struct Sum {
  template <typename V> __device__ static V apply(V a, V b) { return a + b; }
};
/// NaN wins.
struct Max {
  template <typename V> __device__ static V apply(V a, V b) {
    return a != a ? a : b != b ? b : a < b ? b : a;
  }
};
struct Min {
  template <typename V> __device__ static V apply(V a, V b) {
    return a != a ? a : b != b ? b : b < a ? b : a;
  }
};

/// What all threads of the block give, combined; every thread gets it. All threads must call it.
template <typename Op, typename V> __device__ V overBlock(V v) {
  constexpr int kWarps = kBlock / 32;
  DS_SHARED(V, partial, kWarps);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    v = Op::apply(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  __syncthreads(); // the last call's results are read
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = v;
  __syncthreads();
  V all[kWarps];
  for (int w = 0; w < kWarps; ++w)
    all[w] = partial[w];
  for (int half = kWarps / 2; half > 0; half /= 2)
    for (int w = 0; w < half; ++w)
      all[w] = Op::apply(all[w], all[w + half]);
  return all[0];
}

/// The block's sum of two rows, rounded. Each thread may read on what it wrote itself: elements threadIdx.x, + blockDim.x, ...
template <typename T> __device__ void addRow(T *to, const T *a, const T *b, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    to[i] = rounded<T>(value(a[i]) + value(b[i]));
}

/// A normalisation over axes [axis, rank): `rows` rows of n elements each.
struct NormRows {
  int64_t rows = 1, n = 1;
};
/// Null, or a message where strides are not row-major.
inline const char *normRowsOf(const DsLaunch &l, const DsTensor &x, NormRows &s) {
  int64_t axis = attr(l, "axis").i;
  axis += axis < 0 ? x.rank : 0;
  for (int i = 0; i < x.rank; ++i)
    (i < axis ? s.rows : s.n) *= x.dims[i];
  return requireRowMajor(l);
}

} // namespace ds::cuda
