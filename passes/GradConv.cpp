// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolution and pooling. With y = conv(x, w) linear in both, <g, y> is linear in g, x and w, and each of
// the three ops is the gradient of another for the third.
#include "passes/Grad.h"

namespace ds {

static Attrs windowsOf(const Op &op) {
  Attrs a = op.attrs;
  a.erase("dims");
  return a;
}

static Value *make(GradCtx &c, OpKind k, Value *l, Value *r, const std::vector<int64_t> &dims,
                   int i) {
  Attrs a = windowsOf(c.op);
  if (k != OpKind::Conv)
    a.set("dims", dims);
  return c.make(k, {l, r}, i, a);
}

Status gradConv(GradCtx &c) {
  Value *x = c.x(0), *w = c.x(1);
  if (c.wants(0))
    c.set(0, make(c, OpKind::ConvGradInput, c.dy, w, x->type.dims, 0));
  if (c.wants(1))
    c.set(1, make(c, OpKind::ConvGradWeight, c.dy, x, w->type.dims, 1));
  return {};
}

// The result lies where conv has x.
Status gradConvGradInput(GradCtx &c) {
  Value *y = c.x(0), *w = c.x(1);
  if (c.wants(0))
    c.set(0, make(c, OpKind::Conv, c.dy, w, {}, 0));
  if (c.wants(1))
    c.set(1, make(c, OpKind::ConvGradWeight, y, c.dy, w->type.dims, 1));
  return {};
}

// The result lies where conv has w.
Status gradConvGradWeight(GradCtx &c) {
  Value *y = c.x(0), *x = c.x(1);
  if (c.wants(0))
    c.set(0, make(c, OpKind::Conv, x, c.dy, {}, 0));
  if (c.wants(1))
    c.set(1, make(c, OpKind::ConvGradInput, y, c.dy, x->type.dims, 1));
  return {};
}

Status gradMaxPool(GradCtx &c) {
  c.set(0, c.make(OpKind::MaxPoolGrad, {c.dy, c.x()}, 0, c.op.attrs));
  return {};
}

Status gradAvgPool(GradCtx &c) {
  Attrs a = c.op.attrs;
  a.set("dims", c.x()->type.dims);
  c.set(0, c.make(OpKind::AvgPoolGrad, {c.dy}, 0, a));
  return {};
}

} // namespace ds
