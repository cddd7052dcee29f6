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

} // namespace ds
