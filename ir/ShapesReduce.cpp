// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of reductions, softmax and matrix products.
#include "ir/ShapesCommon.h"

namespace ds {

// reduce_*: the axes disappear, or stay with extent 1 under keepdims.
Status shapeReduce(const ShapeArgs &c) {
  std::vector<int64_t> axes = c.attrs.list("axes");
  TRY(wantKind(c, 0, Kinds::Number, "reduce_1"));
  TRY(checkAxes(c, axes, c.in[0].rank(), "reduce_2"));
  Dims dims;
  size_t next = 0;
  for (int64_t i = 0; i < c.in[0].rank(); ++i) {
    bool reduced = next < axes.size() && axes[next] == i;
    next += reduced;
    if (!reduced)
      dims.push_back(c.in[0].dims[i]);
    else if (c.attrs.flag("keepdims"))
      dims.push_back(1);
  }
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// softmax log_softmax: floating point, along one axis.
Status shapeSoftmaxLike(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "softmax_1"));
  TRY_ASSIGN(int64_t axis, normalAxis(c, c.attrs.i("axis", -1), c.in[0].rank(), "softmax_2"));
  (void)axis;
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// softmax_grad (dy, y).
Status shapeSoftmaxGrad(const ShapeArgs &c) {
  TRY(shapeSoftmaxLike(c));
  return wantType(c, 1, c.in[0].dtype, c.in[0].dims, "softmax_grad_1");
}

// matmul: rows x inner times inner x columns over the last two axes, which trans_* exchanges first; the
// axes before them broadcast.
Status shapeMatmul(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Number, "matmul_1"));
  TRY(wantSameDType(c, 1, 0, "matmul_1"));
  const Dims &a = c.in[0].dims, &b = c.in[1].dims;
  if (a.size() < 2 || b.size() < 2)
    return c.error("ranks below 2: lhs is " + typeText(c.in[0]) + ", rhs is " + typeText(c.in[1]),
                   "matmul_1");
  bool transA = c.attrs.flag("trans_a"), transB = c.attrs.flag("trans_b");
  int64_t rows = a[a.size() - (transA ? 1 : 2)], inner = a[a.size() - (transA ? 2 : 1)];
  int64_t innerB = b[b.size() - (transB ? 1 : 2)], columns = b[b.size() - (transB ? 2 : 1)];
  if (inner != innerB)
    return c.error("inner sizes differ: lhs has " + std::to_string(inner) + ", rhs has " +
                       std::to_string(innerB),
                   "matmul_2");
  TRY_ASSIGN(Dims dims, broadcastDims(c, head(a, static_cast<int64_t>(a.size()) - 2),
                                      head(b, static_cast<int64_t>(b.size()) - 2), "matmul_3"));
  dims.push_back(rows);
  dims.push_back(columns);
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// Rows [.., K] of operand `rows` times the matrix at operand `matrix`: K of both agree; N comes back.
static StatusOr<int64_t> linearColumns(const ShapeArgs &c, size_t rows, size_t matrix) {
  TRY(wantKind(c, static_cast<int>(rows), Kinds::Float, "linear_1"));
  TRY(wantSameDType(c, static_cast<int>(matrix), static_cast<int>(rows), "linear_1"));
  const Type &x = c.in[rows], &w = c.in[matrix];
  if (x.rank() < 2 || w.rank() != 2)
    return c.error("x is " + typeText(x) + " and w " + typeText(w) +
                       ", expected rows [.., K] and a matrix",
                   "linear_2");
  bool trans = c.attrs.flag("trans_b");
  if (w.dims[trans ? 1 : 0] != x.dims.back())
    return c.error("inner sizes differ: x has " + std::to_string(x.dims.back()) + ", w has " +
                       std::to_string(w.dims[trans ? 1 : 0]),
                   "linear_2");
  return w.dims[trans ? 0 : 1];
}

// linear (x[..,K], w, bias[N]) -> y[..,N].
Status shapeLinear(const ShapeArgs &c) {
  TRY_ASSIGN(int64_t columns, linearColumns(c, 0, 1));
  TRY(wantType(c, 2, c.in[0].dtype, {columns}, "linear_3"));
  Dims dims = c.in[0].dims;
  dims.back() = columns;
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// linear_grad (x[..,K], dy[..,N]) -> dw[K,N] or [N,K], dbias[N].
Status shapeLinearGrad(const ShapeArgs &c) {
  const Type &x = c.in[0], &dy = c.in[1];
  TRY(wantKind(c, 0, Kinds::Float, "linear_1"));
  TRY(wantSameDType(c, 1, 0, "linear_1"));
  if (x.rank() < 2 || dy.rank() != x.rank() ||
      head(x.dims, x.rank() - 1) != head(dy.dims, x.rank() - 1))
    return c.error("x is " + typeText(x) + " and dy " + typeText(dy) +
                       ", expected [.., K] and [.., N] of the same rows",
                   "linear_4");
  int64_t inner = x.dims.back(), columns = dy.dims.back();
  bool trans = c.attrs.flag("trans_b");
  TRY(addResult(c, x.dtype, trans ? Dims{columns, inner} : Dims{inner, columns}));
  return addResult(c, x.dtype, {columns});
}

// linear_gelu_grad (dy[..,K], w, x[..,N]) -> dx[..,N].
Status shapeLinearGeluGrad(const ShapeArgs &c) {
  TRY_ASSIGN(int64_t columns, linearColumns(c, 0, 1));
  Dims dims = c.in[0].dims;
  dims.back() = columns;
  TRY(wantType(c, 2, c.in[0].dtype, dims, "linear_5"));
  return addResult(c, c.in[0].dtype, std::move(dims));
}

} // namespace ds
