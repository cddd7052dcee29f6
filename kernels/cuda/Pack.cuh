// SPDX-License-Identifier: Apache-2.0
//
// Accesses of 16 bytes, with which a warp that reads whole rows has the fewest instructions per byte. Rows are read in packs if they
// are whole ones, wherever they lie; where they are aligned, a pack is one access. So the order of sums depends on sizes alone, and bits
// do not depend on where a plan puts things.
#pragma once

#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

/// Elements that lie side by side; at an address that is a multiple of 16, or of their bytes.
template <typename T, int kSize = 16 / sizeof(T)>
struct alignas(kSize * sizeof(T) < 16 ? kSize * sizeof(T) : 16) Pack {
  static constexpr int kCount = kSize;
  T of[kSize];
};

/// Whether packs can lie at p.
__host__ __device__ inline bool isPacked(const void *p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

/// Elements that are `step` apart, as a row.
template <typename T> struct Line {
  T *data;
  int64_t step;
  __device__ T &operator[](int64_t i) const { return data[i * step]; }
};
template <typename T> __device__ T *firstOf(T *row) { return row; }
template <typename T> __device__ T *firstOf(const Line<T> &l) { return l.data; }
template <typename R>
using ElementOf = std::remove_cvref_t<decltype(std::declval<const R &>()[int64_t(0)])>;

/// Elements [at, at + kSize) of a row.
template <int kSize, typename R>
__device__ Pack<ElementOf<R>, kSize> packAt(const R &row, int64_t at, bool wide) {
  using P = Pack<ElementOf<R>, kSize>;
  if (wide)
    return *reinterpret_cast<const P *>(firstOf(row) + at);
  P p;
  DS_UNROLL
  for (int k = 0; k < kSize; ++k)
    p.of[k] = row[at + k];
  return p;
}
template <typename R, typename T, int kSize>
__device__ void putPack(const R &row, int64_t at, bool wide, const Pack<T, kSize> &p) {
  if (wide) {
    *reinterpret_cast<Pack<T, kSize> *>(firstOf(row) + at) = p;
    return;
  }
  DS_UNROLL
  for (int k = 0; k < kSize; ++k)
    row[at + k] = p.of[k];
}

/// f(i, value of row, values of rows...) for this thread's elements of rows of n, by a whole block. `wide`: all are aligned.
template <typename F, typename R, typename... Rs>
__device__ void readRows(int64_t n, bool wide, F f, const R &row, const Rs &...rows) {
  constexpr int kSize = Pack<ElementOf<R>>::kCount;
  if (n % kSize) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      f(i, value(row[i]), value(rows[i])...);
    return;
  }
  for (int64_t at = threadIdx.x * kSize; at < n; at += blockDim.x * kSize) {
    auto each = [&](const auto &...packs) {
      DS_UNROLL
      for (int k = 0; k < kSize; ++k)
        f(at + k, value(packs.of[k])...);
    };
    each(packAt<kSize>(row, at, wide), packAt<kSize>(rows, at, wide)...);
  }
}

/// out[i] = f(i, values of rows...), rounded. Rows may be `out` itself.
template <typename F, typename O, typename... Rs>
__device__ void mapRows(const O &out, int64_t n, bool wide, F f, const Rs &...rows) {
  using T = ElementOf<O>;
  constexpr int kSize = Pack<T>::kCount;
  if (n % kSize) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      out[i] = rounded<T>(f(i, value(rows[i])...));
    return;
  }
  for (int64_t at = threadIdx.x * kSize; at < n; at += blockDim.x * kSize) {
    auto each = [&](const auto &...packs) {
      Pack<T> p;
      DS_UNROLL
      for (int k = 0; k < kSize; ++k)
        p.of[k] = rounded<T>(f(at + k, value(packs.of[k])...));
      return p;
    };
    putPack(out, at, wide, each(packAt<kSize>(rows, at, wide)...));
  }
}

/// out[i] = x[i] rounded, i < n, by a whole grid: of blocks for 8 elements per thread.
template <typename To, typename From> __device__ void roundAll(To *out, const From *x, int64_t n) {
  constexpr int kSize = 8;
  const bool wide = isPacked(out) && isPacked(x);
  for (int64_t at = firstIndex() * kSize; at < n; at += indexStep() * kSize) {
    if (at + kSize > n) {
      for (int64_t i = at; i < n; ++i)
        out[i] = rounded<To>(value(x[i]));
      continue;
    }
    const auto from = packAt<kSize>(x, at, wide);
    Pack<To, kSize> to;
    DS_UNROLL
    for (int k = 0; k < kSize; ++k)
      to.of[k] = rounded<To>(value(from.of[k]));
    putPack(out, at, wide, to);
  }
}

} // namespace ds::cuda
