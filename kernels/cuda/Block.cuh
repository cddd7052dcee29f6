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

inline constexpr int kColumnBlock = 512;
/// Sums over rows, one or more for each column: f(sums, row, column) adds to them, put(which, column, sum) gets them. Blocks of kColumnBlock
/// threads take 32 columns each; a warp adds every 16th row, and the warps' sums are added in their order.
template <int kSums, typename F, typename P>
__device__ void sumColumns(int64_t rows, int64_t n, F f, P put) {
  constexpr int kWarps = kColumnBlock / 32;
  DS_SHARED(double, partial, kSums *kWarps * 32);
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  double sums[kSums] = {};
  for (int64_t r = warp; column < n && r < rows; r += kWarps)
    f(sums, r, column);
  for (int k = 0; k < kSums; ++k)
    partial[(k * kWarps + warp) * 32 + lane] = sums[k];
  __syncthreads();
  if (warp >= kSums || column >= n)
    return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w)
    sum += partial[(warp * kWarps + w) * 32 + lane];
  put(warp, column, sum);
}
inline dim3 gridOfColumns(int64_t n) { return dim3(static_cast<unsigned>((n + 31) / 32)); }

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
