// SPDX-License-Identifier: Apache-2.0
//
// Accesses of 16 bytes, with which a warp that reads whole rows has the fewest instructions per byte. How threads share out a row
// depends on sizes alone, and so do the order of sums and the bits, wherever a plan puts things; where a pack is aligned, it is one
// access.
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
template <int kSize, typename T> __host__ __device__ bool isPacked(const T *p) {
  return reinterpret_cast<uintptr_t>(p) % alignof(Pack<T, kSize>) == 0;
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

/// How the threads of a block share out a row of n elements: [head, tail) in packs, the others one by one.
struct Share {
  int64_t n, head, tail;
};
/// Of rows that begin where packs do, if n says that all of them do.
template <typename T> __device__ Share shareOf(int64_t n) {
  const bool inPacks = n % Pack<T>::kCount == 0;
  return {n, inPacks ? 0 : n, n};
}
/// Of a row that begins with element `first` of a tensor; packs begin where the tensor's do.
template <typename T> __device__ Share shareOf(int64_t n, int64_t first) {
  constexpr int64_t kSize = Pack<T>::kCount;
  const int64_t before = (kSize - first % kSize) % kSize, head = before < n ? before : n;
  return {n, head, head + (n - head) / kSize * kSize};
}

/// f(i, packs...) for this thread's part of rows; a pack may be of one element. `wide`: all rows' packs are aligned.
template <typename F, typename R, typename... Rs>
__device__ void sharePacks(const Share &s, bool wide, F f, const R &row, const Rs &...rows) {
  constexpr int kSize = Pack<ElementOf<R>>::kCount;
  for (int64_t i = threadIdx.x; i < s.head; i += blockDim.x)
    f(i, packAt<1>(row, i, false), packAt<1>(rows, i, false)...);
  for (int64_t at = s.head + threadIdx.x * kSize; at < s.tail; at += blockDim.x * kSize)
    f(at, packAt<kSize>(row, at, wide), packAt<kSize>(rows, at, wide)...);
  for (int64_t i = s.tail + threadIdx.x; i < s.n; i += blockDim.x)
    f(i, packAt<1>(row, i, false), packAt<1>(rows, i, false)...);
}

/// f(i, value of row, values of rows...) for this thread's elements of rows, by a whole block.
template <typename F, typename R, typename... Rs>
__device__ void readRows(const Share &s, bool wide, F f, const R &row, const Rs &...rows) {
  sharePacks(
      s, wide,
      [&](int64_t at, const auto &first, const auto &...others) {
        DS_UNROLL
        for (int k = 0; k < first.kCount; ++k)
          f(at + k, value(first.of[k]), value(others.of[k])...);
      },
      row, rows...);
}

/// out[i] = f(i, values of rows...), rounded. Rows may be `out` itself.
template <typename F, typename O, typename R, typename... Rs>
__device__ void mapRows(const O &out, const Share &s, bool wide, F f, const R &row,
                        const Rs &...rows) {
  using T = ElementOf<O>;
  sharePacks(
      s, wide,
      [&](int64_t at, const auto &first, const auto &...others) {
        constexpr int kSize = std::remove_cvref_t<decltype(first)>::kCount;
        Pack<T, kSize> p;
        DS_UNROLL
        for (int k = 0; k < kSize; ++k)
          p.of[k] = rounded<T>(f(at + k, value(first.of[k]), value(others.of[k])...));
        putPack(out, at, wide && kSize > 1, p);
      },
      row, rows...);
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
