// SPDX-License-Identifier: Apache-2.0
//
// One matrix product: every element is one sum in double (integers: wrapping 64 bits) along the inner axis, first to last. Columns
// are taken in blocks only so that the sums of a block stay in registers or cache.
#pragma once

#include "kernels/Element.h"

#include <utility>

namespace ds::ref {

template <typename T> struct Matrix {
  T *data;
  int64_t rowStride, columnStride;
  T &at(int64_t i, int64_t j) const { return data[i * rowStride + j * columnStride]; }
  Matrix transposed() const { return {data, columnStride, rowStride}; }
};

template <typename T> using SumOf = std::conditional_t<elem::kIsFloat<T>, double, uint64_t>;

/// out[i, j] = finish(sum, i, j), rounded once.
template <typename T, typename F>
void product(Matrix<T> out, Matrix<const T> a, Matrix<const T> b, int64_t rows, int64_t inner,
             int64_t columns, F finish) {
  using A = SumOf<T>;
  constexpr int64_t kBlock = 64;
  for (int64_t j0 = 0; j0 < columns; j0 += kBlock) {
    int64_t width = columns - j0 < kBlock ? columns - j0 : kBlock;
    for (int64_t i = 0; i < rows; ++i) {
      A sum[kBlock] = {};
      for (int64_t k = 0; k < inner; ++k) {
        A left = static_cast<A>(elem::load(a.at(i, k)));
        const T *right = &b.at(k, j0);
        for (int64_t j = 0; j < width; ++j)
          sum[j] += left * static_cast<A>(elem::load(right[j * b.columnStride]));
      }
      for (int64_t j = 0; j < width; ++j)
        out.at(i, j0 + j) = elem::store<T>(finish(sum[j], i, j0 + j));
    }
  }
}

} // namespace ds::ref
