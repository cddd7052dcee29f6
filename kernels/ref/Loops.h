// SPDX-License-Identifier: Apache-2.0
//
// Loops over strided tensors in row-major order of the index, which is the order of every sum in `ref`.
#pragma once

#include "kernels/Element.h"

#include <utility>

namespace ds::ref {

using namespace elem;

/// printf into storage that lives until this thread's next message (run() may return it).
const char *message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Dimensions to walk with N strides for each: offsets of N tensors advance together.
template <int N> struct Loop {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t strides[N][kMaxRank];

  void add(int64_t dim, const int64_t (&s)[N]) {
    dims[rank] = dim;
    for (int k = 0; k < N; ++k)
      strides[k][rank] = s[k];
    ++rank;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i)
      n *= dims[i];
    return n;
  }
};

template <typename F, size_t N, size_t... K>
void call(F &f, const int64_t (&at)[N], std::index_sequence<K...>) {
  f(at[K]...);
}

/// f(offset of tensor 0, offset of tensor 1, ...) for every index, the last axis fastest.
template <int N, typename F> void walk(const Loop<N> &loop, F f) {
  if (loop.count() == 0)
    return;
  int64_t index[kMaxRank] = {}, at[N] = {};
  int inner = loop.rank - 1;
  int64_t innerCount = inner >= 0 ? loop.dims[inner] : 1;
  while (true) {
    int64_t here[N];
    for (int k = 0; k < N; ++k)
      here[k] = at[k];
    for (int64_t i = 0; i < innerCount; ++i) {
      call(f, here, std::make_index_sequence<N>());
      for (int k = 0; k < N; ++k)
        here[k] += inner >= 0 ? loop.strides[k][inner] : 0;
    }
    int axis = inner - 1;
    for (; axis >= 0; --axis) {
      for (int k = 0; k < N; ++k)
        at[k] += loop.strides[k][axis];
      if (++index[axis] < loop.dims[axis])
        break;
      for (int k = 0; k < N; ++k)
        at[k] -= loop.strides[k][axis] * loop.dims[axis];
      index[axis] = 0;
    }
    if (axis < 0)
      return;
  }
}

/// Stride of t along axis `axis` of a shape of rank `rank` that t broadcasts to.
inline int64_t broadcastStride(const DsTensor &t, int axis, int rank) {
  int own = axis - (rank - t.rank);
  return own < 0 || t.dims[own] == 1 ? 0 : t.strides[own];
}

/// The loop over out's index, with operands broadcast to it.
inline Loop<2> loopOf(const DsTensor &out, const DsTensor &a) {
  Loop<2> loop;
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i], {out.strides[i], broadcastStride(a, i, out.rank)});
  return loop;
}
inline Loop<3> loopOf(const DsTensor &out, const DsTensor &a, const DsTensor &b) {
  Loop<3> loop;
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i],
             {out.strides[i], broadcastStride(a, i, out.rank), broadcastStride(b, i, out.rank)});
  return loop;
}
inline Loop<4> loopOf(const DsTensor &out, const DsTensor &a, const DsTensor &b,
                      const DsTensor &c) {
  Loop<4> loop;
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i], {out.strides[i], broadcastStride(a, i, out.rank),
                           broadcastStride(b, i, out.rank), broadcastStride(c, i, out.rank)});
  return loop;
}

/// dst[index] = src[index] for every index of the loop (tensor 0 is dst, tensor 1 is src).
template <typename T> void copyLoop(const Loop<2> &loop, T *dst, const T *src) {
  walk(loop, [&](int64_t to, int64_t from) { dst[to] = src[from]; });
}

/// An axis attribute counted from the front.
inline int64_t axisOf(const DsLaunch &l, int64_t rank) {
  int64_t axis = attr(l, "axis").i;
  return axis < 0 ? axis + rank : axis;
}

} // namespace ds::ref
