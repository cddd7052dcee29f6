// SPDX-License-Identifier: Apache-2.0
//
// Matrix products with batch axes.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"
#include "kernels/ref/Product.h"

namespace ds::ref {

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
      product(c, transA ? x.transposed() : x, transB ? y.transposed() : y, rows, inner, columns,
              [](SumOf<T> sum, int64_t, int64_t) { return sum; });
    });
    return nullptr;
  });
}

} // namespace ds::ref
