// SPDX-License-Identifier: Apache-2.0
//
// C = A B, or C += A B, for small row-major buffers whose rows are padded to whole vectors, per Highway target. Six rows of C by
// four vectors are kept in registers. An element's sum goes along the inner axis from first to last.
#include "kernels/cpu/Rows-inl.h"

#if defined(DS_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_CPU_TILE_INL_H_
#undef DS_CPU_TILE_INL_H_
#else
#define DS_CPU_TILE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

/// n rounded up to whole vectors.
HWY_INLINE int64_t padded(int64_t n) { return (n + lanes() - 1) / lanes() * lanes(); }

/// Element (i, k) of A lies at i * row + k * inner.
struct TileA {
  const float *data;
  int64_t row, inner;
};

template <int R, int V>
HWY_INLINE void tile(TileA a, const float *b, int64_t bRow, int64_t k, float *c, int64_t cRow,
                     bool add) {
  F32 d;
  const int64_t N = lanes();
  VF acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      acc[r][v] = add ? hn::LoadU(d, c + r * cRow + v * N) : hn::Zero(d);
  for (int64_t i = 0; i < k; ++i, b += bRow) {
    VF x[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      x[v] = hn::LoadU(d, b + v * N);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const VF s = hn::Set(d, a.data[r * a.row + i * a.inner]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        acc[r][v] = hn::MulAdd(s, x[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      hn::StoreU(acc[r][v], d, c + r * cRow + v * N);
}

/// All m rows of V vectors of columns.
template <int V>
HWY_INLINE void tileColumn(TileA a, int64_t m, const float *b, int64_t bRow, int64_t k, float *c,
                           int64_t cRow, bool add) {
  int64_t i = 0;
  auto from = [&]() HWY_ATTR { return TileA{a.data + i * a.row, a.row, a.inner}; };
  for (; i + 6 <= m; i += 6)
    tile<6, V>(from(), b, bRow, k, c + i * cRow, cRow, add);
  for (; i + 2 <= m; i += 2)
    tile<2, V>(from(), b, bRow, k, c + i * cRow, cRow, add);
  if (i < m)
    tile<1, V>(from(), b, bRow, k, c + i * cRow, cRow, add);
}

/// m rows and padded(n) columns of C. With targets of 16 registers two vectors of columns at a time.
inline void tiles(TileA a, int64_t m, const float *b, int64_t bRow, int64_t k, int64_t n, float *c,
                  int64_t cRow, bool add) {
  const int64_t N = lanes(), vectors = (n + N - 1) / N, most = N >= 16 ? 4 : 2;
  for (int64_t v = 0; v < vectors;) {
    const int64_t left = vectors - v;
    const float *from = b + v * N;
    float *to = c + v * N;
    if (left >= 4 && most == 4)
      tileColumn<4>(a, m, from, bRow, k, to, cRow, add), v += 4;
    else if (left >= 2)
      tileColumn<2>(a, m, from, bRow, k, to, cRow, add), v += 2;
    else
      tileColumn<1>(a, m, from, bRow, k, to, cRow, add), v += 1;
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
