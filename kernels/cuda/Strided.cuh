// SPDX-License-Identifier: Apache-2.0
//
// Elementwise loops over strided tensors, as launch parameters: the host merges axes, a device thread finds the offsets of
// its element in each of N tensors.
#pragma once

#include "kernels/cuda/Cuda.h"

namespace ds::cuda {

template <int N> struct Strided {
  int rank = 0;
  int64_t count = 1;
  int64_t dims[kMaxRank];
  int64_t strides[N][kMaxRank];

  /// Row-major in every tensor, of elements that are `step` apart: the offset is step times the index.
  bool isFlat(int64_t step = 1) const {
    for (int k = 0; k < N; ++k)
      if (rank > 1 || (rank == 1 && strides[k][0] != step))
        return false;
    return true;
  }
  /// Whether in each of the first `tensors` the `size` elements lie side by side, or are one, that an index which is a multiple of
  /// `size` begins; side by side in tensor 0.
  bool liesInPacks(int64_t size, int tensors = N) const {
    if (rank == 0 || dims[rank - 1] % size != 0 || strides[0][rank - 1] != 1)
      return false;
    for (int k = 0; k < tensors; ++k) {
      if (repeats(k))
        continue;
      if (strides[k][rank - 1] != 1)
        return false;
      for (int axis = 0; axis + 1 < rank; ++axis)
        if (strides[k][axis] % size != 0)
          return false;
    }
    return true;
  }
  /// Whether elements that lie side by side in tensor 0 are one in tensor k.
  __host__ __device__ bool repeats(int k) const { return rank == 0 || strides[k][rank - 1] == 0; }
  /// Each index stands for `size` elements.
  Strided inPacks(int64_t size) const {
    Strided s = *this;
    s.count /= size;
    s.dims[rank - 1] /= size;
    for (int k = 0; k < N; ++k)
      s.strides[k][rank - 1] *= size;
    return s;
  }
  /// An axis behind the others; it is merged with the one before where all strides allow.
  void add(int64_t dim, const int64_t (&s)[N]) {
    count *= dim;
    if (dim == 1)
      return;
    bool merges = rank > 0;
    for (int k = 0; k < N && merges; ++k)
      merges = strides[k][rank - 1] == s[k] * dim;
    int at = merges ? rank - 1 : rank++;
    dims[at] = merges ? dims[at] * dim : dim;
    for (int k = 0; k < N; ++k)
      strides[k][at] = s[k];
  }

  __device__ void offsets(int64_t i, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k)
      at[k] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      int64_t q, r;
      if (i <= 0x7fffffff && dims[axis] <= 0x7fffffff) { // 32 bits divide much faster
        auto a = static_cast<uint32_t>(i), b = static_cast<uint32_t>(dims[axis]);
        q = a / b, r = a % b;
      } else {
        q = i / dims[axis], r = i % dims[axis];
      }
      for (int k = 0; k < N; ++k)
        at[k] += r * strides[k][axis];
      i = q;
    }
  }
};

/// Stride of t along `axis` of a shape of rank `rank` that t broadcasts to.
inline int64_t broadcastStride(const DsTensor &t, int axis, int rank) {
  int own = axis - (rank - t.rank);
  return own < 0 || t.dims[own] == 1 ? 0 : t.strides[own];
}

/// Over the first tensor's index; the others are broadcast to it.
template <typename... Ts>
Strided<1 + sizeof...(Ts)> stridedOf(const DsTensor &out, const Ts &...others) {
  Strided<1 + sizeof...(Ts)> s;
  for (int i = 0; i < out.rank; ++i)
    s.add(out.dims[i], {out.strides[i], broadcastStride(others, i, out.rank)...});
  return s;
}

/// f(offset in tensor 0, offset in tensor 1, ...) for every element, on the device. F is a struct of device code.
template <typename F, int N> __global__ void eachElement(F f, Strided<N> s, bool flat) {
  for (int64_t i = firstIndex(); i < s.count; i += indexStep()) {
    int64_t at[N];
    if (flat)
      for (int k = 0; k < N; ++k)
        at[k] = i;
    else
      s.offsets(i, at);
    f(at);
  }
}

template <typename F, int N>
const char *launchElements(const DsLaunch &l, const F &f, const Strided<N> &s) {
  if (s.count == 0)
    return nullptr;
  return launch(eachElement<F, N>, gridFor(s.count), dim3(kBlock), 0, streamOf(l), f, s,
                s.isFlat());
}

} // namespace ds::cuda
