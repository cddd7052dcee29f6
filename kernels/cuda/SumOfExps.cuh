// SPDX-License-Identifier: Apache-2.0
//
// The sum of a row's exponentials, in one pass over the row: each thread keeps the highest value that it has met, and scales what it has
// added when a higher one comes (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018).
#pragma once

#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Pack.cuh"

#include <cmath>

namespace ds::cuda {

template <typename A> struct ExpSum {
  A top = -INFINITY, sum = 0; // of exp(value - top); NaN if a value is, or if one is infinite

  /// exp(v - base()) of values up to top. Where all are -infinity it is of no use, but no NaN.
  __device__ A base() const { return top == -INFINITY ? A(0) : top; }
  template <typename P> __device__ void add(const P &values) {
    A high = top;
    DS_UNROLL
    for (int k = 0; k < P::kCount; ++k) {
      const A v = value(values.of[k]);
      high = v > high ? v : high;
    }
    const A before = top;
    top = high;
    sum *= exp(before - base());
    DS_UNROLL
    for (int k = 0; k < P::kCount; ++k)
      sum += exp(value(values.of[k]) - base());
  }
  __device__ ExpSum overBlock() const {
    ExpSum all;
    all.top = cuda::overBlock<Max>(top);
    all.sum = cuda::overBlock<Sum>(sum * static_cast<A>(exp(top - all.base())));
    return all;
  }
  __device__ A lse() const { return top + static_cast<A>(log(sum)); }
};

/// Of the row, by a whole block; every thread gets it.
template <typename A, typename R>
__device__ ExpSum<A> sumOfExps(const Share &s, bool wide, const R &row) {
  ExpSum<A> own;
  sharePacks(
      s, wide, [&](int64_t, const auto &pack) { own.add(pack); }, row);
  return own.overBlock();
}

} // namespace ds::cuda
