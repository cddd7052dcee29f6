// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: every element is one sum in double (integers: wrapping 64 bits) along the inner axis,
// first to last. Columns are taken in blocks only so that the sums of a block stay in registers or cache.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

template <typename T> struct Matrix {
  T *data;
  int64_t rowStride, columnStride;
  T &at(int64_t i, int64_t j) const { return data[i * rowStride + j * columnStride]; }
};

template <typename T>
static void product(Matrix<T> out, Matrix<const T> a, Matrix<const T> b, int64_t rows,
                    int64_t inner, int64_t columns) {
  using A = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  constexpr int64_t kBlock = 64;
  for (int64_t j0 = 0; j0 < columns; j0 += kBlock) {
    int64_t width = columns - j0 < kBlock ? columns - j0 : kBlock;
    for (int64_t i = 0; i < rows; ++i) {
      A sum[kBlock] = {};
      for (int64_t k = 0; k < inner; ++k) {
        A left = static_cast<A>(load(a.at(i, k)));
        const T *right = &b.at(k, j0);
        for (int64_t j = 0; j < width; ++j)
          sum[j] += left * static_cast<A>(load(right[j * b.columnStride]));
      }
      for (int64_t j = 0; j < width; ++j)
        out.at(i, j0 + j) = store<T>(sum[j]);
    }
  }
}

const char *refMatmul(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &a = l->ins[0], &b = l->ins[1];
  bool transA = flag(*l, "trans_a"), transB = flag(*l, "trans_b");
  int64_t rows = out.dims[out.rank - 2], columns = out.dims[out.rank - 1];
  int64_t inner = a.dims[a.rank - (transA ? 2 : 1)];
  // Batch axes broadcast: leave out the last two axes of all three.
  DsTensor outBatch = out, aBatch = a, bBatch = b;
  outBatch.rank -= 2;
  aBatch.rank -= 2;
  bBatch.rank -= 2;
  return dispatchNumber(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    walk(loopOf(outBatch, aBatch, bBatch), [&](int64_t o, int64_t i, int64_t j) {
      Matrix<T> c = {dataOf<T>(out) + o, out.strides[out.rank - 2], out.strides[out.rank - 1]};
      Matrix<const T> x = {dataOf<T>(a) + i, a.strides[a.rank - 2], a.strides[a.rank - 1]};
      Matrix<const T> y = {dataOf<T>(b) + j, b.strides[b.rank - 2], b.strides[b.rank - 1]};
      if (transA)
        std::swap(x.rowStride, x.columnStride);
      if (transB)
        std::swap(y.rowStride, y.columnStride);
      product(c, x, y, rows, inner, columns);
    });
    return nullptr;
  });
}

} // namespace ds::ref
