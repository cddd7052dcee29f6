// SPDX-License-Identifier: Apache-2.0
//
// Sums and maxima over a block of threads, in one fixed order: lanes by halves, then warps by halves. And the rows that
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

/// What all kThreads threads of the block give, combined; every thread gets it. All threads must call it.
template <typename Op, int kThreads = kBlock, typename V> __device__ V overBlock(V v) {
  constexpr int kWarps = kThreads / 32;
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

inline constexpr int kColumnBlock = 1024;
inline constexpr int kColumns = 8; // of a block
/// Sums over rows, one or more for each column: f(sums, row, column) adds to them, put(which, column, sum) gets them. Columns are few
/// where rows are many, so a block of kColumnBlock threads takes kColumns of them only: more would leave most of a device idle.
/// Each thread adds every 128th row; lanes are added by halves, and the warps' sums in their order.
template <int kSums, typename F, typename P>
__device__ void sumColumns(int64_t rows, int64_t n, F f, P put) {
  constexpr int kWarps = kColumnBlock / 32;
  DS_SHARED(double, partial, kSums *kWarps *kColumns);
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int64_t column = first + lane % kColumns;
  double sums[kSums] = {};
  for (int64_t r = threadIdx.x / kColumns; column < n && r < rows; r += kColumnBlock / kColumns)
    f(sums, r, column);
  DS_UNROLL
  for (int k = 0; k < kSums; ++k) {
    DS_UNROLL
    for (int lanes = 16; lanes >= kColumns; lanes /= 2)
      sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], lanes);
    if (lane < kColumns)
      partial[(k * kWarps + warp) * kColumns + lane] = sums[k];
  }
  __syncthreads();
  const int which = static_cast<int>(threadIdx.x) / kColumns, own = threadIdx.x % kColumns;
  if (which >= kSums || first + own >= n)
    return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w)
    sum += partial[(which * kWarps + w) * kColumns + own];
  put(which, first + own, sum);
}
inline dim3 gridOfColumns(int64_t n) {
  return dim3(static_cast<unsigned>((n + kColumns - 1) / kColumns));
}

/// A normalisation over axes [axis, rank): `rows` rows of n elements each.
struct NormRows {
  int64_t rows = 1, n = 1;
};
inline constexpr int kRowBlock = 128;
/// Launches one of two kernels with a block for each row: `few`, of kRowBlock threads, where more would have no pack of a row.
template <typename T, typename K, typename... A>
const char *launchRows(const DsLaunch &l, const NormRows &s, K few, K many, A... args) {
  const bool isShort = s.n <= kRowBlock * 16 / int64_t{sizeof(T)};
  return launch(isShort ? few : many, gridFor(s.rows, 1), dim3(isShort ? kRowBlock : kBlock), 0,
                streamOf(l), args..., s.rows, s.n);
}

/// Null, or a message where strides are not row-major.
inline const char *normRowsOf(const DsLaunch &l, const DsTensor &x, NormRows &s) {
  int64_t axis = attr(l, "axis").i;
  axis += axis < 0 ? x.rank : 0;
  for (int i = 0; i < x.rank; ++i)
    (i < axis ? s.rows : s.n) *= x.dims[i];
  return requireRowMajor(l);
}

} // namespace ds::cuda
