// SPDX-License-Identifier: Apache-2.0
//
// Gradients of reductions and softmax.
#include "passes/Grad.h"

#include <algorithm>

namespace ds {

// dy with the reduced axes back as extent 1, so that it broadcasts against x.
static Value *keepDims(GradCtx &c, Value *v) {
  std::vector<int64_t> dims = c.x()->type.dims;
  for (int64_t a : c.op.attrs.list("axes"))
    dims[a < 0 ? a + c.x()->type.rank() : a] = 1;
  return v->type.dims == dims ? v : c.make(OpKind::Reshape, {v}, 0, {{"dims", dims}});
}

Status gradReduceSum(GradCtx &c) {
  c.set(0, c.make(OpKind::Broadcast, {keepDims(c, c.dy)}, 0, {{"dims", c.x()->type.dims}}));
  return {};
}

// Elements equal to the extremum share dy evenly, as torch.amax does.
Status gradReduceMaxMin(GradCtx &c) {
  Value *hit = c.make(OpKind::Eq, {c.x(), keepDims(c, c.y())}, 0);
  Value *one = c.make(OpKind::Cast, {hit}, 0, {{"to", std::string(text(c.dy->type.dtype))}});
  Value *count =
      c.make(OpKind::ReduceSum, {one}, 0, {{"axes", c.op.attrs.list("axes")}, {"keepdims", true}});
  Value *share = c.make(OpKind::Div, {keepDims(c, c.dy), count}, 0);
  c.set(0, c.make(OpKind::Where, {hit, share, c.scalar(0, c.dy)}, 0));
  return {};
}

Status gradSoftmax(GradCtx &c) {
  c.set(0, c.make(OpKind::SoftmaxGrad, {c.dy, c.y()}, 0, {{"axis", c.op.attrs.i("axis", -1)}}));
  return {};
}

Status gradLogSoftmax(GradCtx &c) { // dy - exp(y) sum(dy)
  int64_t axis = c.op.attrs.i("axis", -1);
  axis += axis < 0 ? c.x()->type.rank() : 0;
  Value *sum = c.make(OpKind::ReduceSum, {c.dy}, 0,
                      {{"axes", std::vector<int64_t>{axis}}, {"keepdims", true}});
  Value *e = c.make(OpKind::Exp, {c.y()}, 0);
  c.set(0, c.make(OpKind::Sub, {c.dy, c.make(OpKind::Mul, {e, sum}, 0)}, 0));
  return {};
}

} // namespace ds
