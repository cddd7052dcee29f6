// SPDX-License-Identifier: Apache-2.0
//
// Tiles of attention on tensor cores. A block is four warps; each owns 16 rows of a tile of 64. Head sizes are filled up with
// zeros to kD. Rows in shared memory are 16 bytes longer than they need be, so that loading matrices meets no bank twice.
#pragma once

#include "kernels/cuda/Attention.cuh"
#include "kernels/cuda/Mma.cuh"
#include "kernels/cuda/Pack.cuh"

namespace ds::cuda {

constexpr int kMmaRows = 16; // of a warp
constexpr int kMmaThreads = 128;
constexpr int kMmaTile = kMmaThreads / 32 * kMmaRows;
template <int kD> constexpr int kRowWords = (kD + 8) / 2;
constexpr float kLog2e = 1.44269504f;

__device__ inline int laneIndex() { return threadIdx.x % 32; }
/// The first row of this thread's warp.
__device__ inline int warpRow() { return static_cast<int>(threadIdx.x) / 32 * kMmaRows; }

/// Rows of one head: element (row, i) lies at row * rowStride + i * step. P: uint16_t, or const.
template <typename P> struct HeadRows {
  P *data;
  int64_t row, step;
  int count, width;
  bool wide; // 8 elements at a time
};
template <typename T>
__device__ auto headRows(T *data, const AttentionAxes &a, int64_t b, int64_t h, int64_t count,
                         int64_t width) {
  using P = std::conditional_t<std::is_const_v<T>, const uint16_t, uint16_t>;
  P *at = reinterpret_cast<P *>(data) + (b * a.batch + h * a.head);
  bool wide = a.element == 1 && a.row % 8 == 0 && width % 8 == 0 && isPacked(at);
  return HeadRows<P>{at, a.row, a.element, static_cast<int>(count), static_cast<int>(width), wide};
}

/// kRows rows of `from` to rows [first, first + kRows) of `to`, zeros beyond its end, by kThreads threads. They are there when
/// `copies` are.
template <int kD, int kRows, int kThreads, typename S>
__device__ void loadRows(S &to, int first, const HeadRows<const uint16_t> &from, int row,
                         AsyncCopies &copies) {
  constexpr int kPieces = kD / 8;
  for (int i = static_cast<int>(threadIdx.x) % kThreads; i < kRows * kPieces; i += kThreads) {
    const int r = i / kPieces, c = i % kPieces * 8, word = (first + r) * kRowWords<kD> + c / 2;
    const bool any = row + r < from.count && c < from.width;
    const uint16_t *at = from.data + (any ? (row + r) * from.row + c * from.step : 0);
    if (from.wide) {
      copies.add(to, word, at, any);
      continue;
    }
    for (int e = 0; e < 8; e += 2) {
      uint32_t low = any && c + e < from.width ? at[e * from.step] : 0u;
      uint32_t high = any && c + e + 1 < from.width ? at[(e + 1) * from.step] : 0u;
      to[word + e / 2] = low | high << 16;
    }
  }
}

/// The word of a 16 x 16 matrix at (row, column) where this lane's row begins, for loadMatrices: transposed, or as a left factor.
template <int kD> __device__ int matrixAt(int row, int column) {
  return (row + laneIndex() % 16) * kRowWords<kD> + (column + laneIndex() / 16 * 8) / 2;
}
/// The same of two right factors below each other, whose rows are columns.
template <int kD> __device__ int rightAt(int row, int column) {
  return (row + laneIndex() % 8 + laneIndex() / 16 * 8) * kRowWords<kD> +
         (column + laneIndex() / 8 % 2 * 8) / 2;
}

/// The warp's 16 rows of `from`, as left factors, by way of its rows of `staging`.
template <int kD, typename S>
__device__ void loadFactor(uint32_t (&to)[kD / 16][4], S &staging,
                           const HeadRows<const uint16_t> &from, int row, AsyncCopies &copies) {
  loadRows<kD, kMmaRows, 32>(staging, warpRow(), from, row + warpRow(), copies);
  copies.wait();
  __syncwarp(); // the other lanes' copies are there
  DS_UNROLL
  for (int k = 0; k < kD / 16; ++k)
    loadMatrices<false>(to[k], staging, matrixAt<kD>(warpRow(), 16 * k));
  __syncwarp(); // the rows are read
}

/// c += a times the transpose of rows [row, row + 8 kN) of `rows`.
template <typename T, int kD, int kN, typename S>
__device__ void addTimesRows(float (&c)[kN][4], const uint32_t (&a)[kD / 16][4], const S &rows,
                             int row) {
  DS_UNROLL
  for (int k = 0; k < kD / 16; ++k) {
    DS_UNROLL
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      loadMatrices<false>(b, rows, rightAt<kD>(row + 8 * n, 16 * k));
      mma16816<T>(c[n], a[k], b[0], b[1]);
      mma16816<T>(c[n + 1], a[k], b[2], b[3]);
    }
  }
}

/// c += a times rows [row, row + 8 kN) of `rows`, for what addTimesRows gave for a.
template <typename T, int kD, int kN, typename S>
__device__ void addTimesColumns(float (&c)[kD / 8][4], const float (&a)[kN][4], const S &rows,
                                int row) {
  DS_UNROLL
  for (int k = 0; k < kN / 2; ++k) {
    const float(&left)[4] = a[2 * k], (&right)[4] = a[2 * k + 1];
    const uint32_t factor[4] = {packed<T>(left[0], left[1]), packed<T>(left[2], left[3]),
                                packed<T>(right[0], right[1]), packed<T>(right[2], right[3])};
    DS_UNROLL
    for (int n = 0; n < kD / 8; n += 2) {
      uint32_t b[4];
      loadMatrices<true>(b, rows, matrixAt<kD>(row + 16 * k, 8 * n));
      mma16816<T>(c[n], factor, b[0], b[1]);
      mma16816<T>(c[n + 1], factor, b[2], b[3]);
    }
  }
}

/// The warp's 16 rows, each times its factor, rounded, by way of its rows of `staging`.
template <typename T, int kD, typename S>
__device__ void storeRows(const HeadRows<uint16_t> &to, int row, S &staging,
                          const float (&c)[kD / 8][4], const float (&factor)[2]) {
  const int lane = laneIndex();
  DS_UNROLL
  for (int n = 0; n < kD / 8; ++n)
    DS_UNROLL
  for (int i = 0; i < 2; ++i)
    staging[(warpRow() + lane / 4 + 8 * i) * kRowWords<kD> + 4 * n + lane % 4] =
        packed<T>(c[n][2 * i] * factor[i], c[n][2 * i + 1] * factor[i]);
  __syncwarp(); // rows are complete
  constexpr int kPieces = kD / 8;
  for (int i = lane; i < kMmaRows * kPieces; i += 32) {
    const int r = i / kPieces, c0 = i % kPieces * 8;
    const int word = (warpRow() + r) * kRowWords<kD> + c0 / 2;
    const int at = row + warpRow() + r;
    if (at >= to.count || c0 >= to.width)
      continue;
    uint16_t *out = to.data + at * to.row + c0 * to.step;
    if (to.wide) {
      *reinterpret_cast<Pack<uint32_t> *>(out) = {
          {staging[word], staging[word + 1], staging[word + 2], staging[word + 3]}};
      continue;
    }
    for (int e = 0; e < 8 && c0 + e < to.width; ++e)
      out[e * to.step] = static_cast<uint16_t>(staging[word + e / 2] >> e % 2 * 16);
  }
}

/// f(kD) for the smallest kD that rows of the launch fit.
template <typename F> const char *dispatchHeads(const AttentionShape &s, F f) {
  const int64_t width = std::max(s.depth, s.width);
  return width <= 32   ? f(std::integral_constant<int, 32>())
         : width <= 64 ? f(std::integral_constant<int, 64>())
         : width <= 96 ? f(std::integral_constant<int, 96>())
                       : f(std::integral_constant<int, 128>());
}

/// One block per tile of `rows` rows of each of `heads` heads.
inline dim3 mmaGrid(int64_t rows, int64_t heads) {
  return dim3(static_cast<unsigned>((rows + kMmaTile - 1) / kMmaTile * heads));
}

} // namespace ds::cuda
