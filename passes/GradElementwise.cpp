// SPDX-License-Identifier: Apache-2.0
//
// Gradients of elementwise ops. Where the output is cheaper to use than the input, it is used. Where a slope can be infinite,
// a dy of zero, as behind a mask, still gives zero: sqrt(0) or log(0) that `where` drops must not turn weights into NaN.
#include "passes/Grad.h"

#include <cmath>

namespace ds {

Status gradNeg(GradCtx &c) {
  c.set(0, c.make(OpKind::Neg, {c.dy}, 0));
  return {};
}

Status gradAbs(GradCtx &c) { // Abs'(0) = 0
  c.set(0, c.make(OpKind::Mul, {c.dy, c.make(OpKind::Sign, {c.x()}, 0)}, 0));
  return {};
}

// g, a product of dy and a slope, or zero where dy is.
static Value *zeroWithDy(GradCtx &c, Value *g, int i) {
  Value *zero = c.scalar(0, c.dy);
  Value *dropped = c.make(OpKind::Eq, {c.dy, zero}, i);
  return c.make(OpKind::Where, {dropped, zero, g}, i);
}

Status gradExp(GradCtx &c) {
  c.set(0, zeroWithDy(c, c.make(OpKind::Mul, {c.dy, c.y()}, 0), 0));
  return {};
}

Status gradLog(GradCtx &c) {
  c.set(0, zeroWithDy(c, c.make(OpKind::Div, {c.dy, c.x()}, 0), 0));
  return {};
}

Status gradSqrt(GradCtx &c) { // dy / (2 y)
  Value *y2 = c.make(OpKind::Add, {c.y(), c.y()}, 0);
  c.set(0, zeroWithDy(c, c.make(OpKind::Div, {c.dy, y2}, 0), 0));
  return {};
}

Status gradReciprocal(GradCtx &c) { // -dy y^2
  Value *y2 = c.make(OpKind::Mul, {c.y(), c.y()}, 0);
  Value *g = zeroWithDy(c, c.make(OpKind::Mul, {c.dy, y2}, 0), 0);
  c.set(0, c.make(OpKind::Neg, {g}, 0));
  return {};
}

Status gradTanh(GradCtx &c) {
  c.set(0, c.make(OpKind::TanhGrad, {c.dy, c.y()}, 0));
  return {};
}

Status gradSigmoid(GradCtx &c) { // dy (y - y^2)
  Value *y2 = c.make(OpKind::Mul, {c.y(), c.y()}, 0);
  c.set(0, c.make(OpKind::Mul, {c.dy, c.make(OpKind::Sub, {c.y(), y2}, 0)}, 0));
  return {};
}

Status gradErf(GradCtx &c) { // dy 2/sqrt(pi) exp(-x^2)
  Value *x2 = c.make(OpKind::Mul, {c.x(), c.x()}, 0);
  Value *e = c.make(OpKind::Exp, {c.make(OpKind::Neg, {x2}, 0)}, 0);
  Value *k = c.scalar(2 / std::sqrt(M_PI), c.x());
  c.set(0, c.make(OpKind::Mul, {c.dy, c.make(OpKind::Mul, {e, k}, 0)}, 0));
  return {};
}

Status gradSin(GradCtx &c) {
  c.set(0, c.make(OpKind::Mul, {c.dy, c.make(OpKind::Cos, {c.x()}, 0)}, 0));
  return {};
}

Status gradCos(GradCtx &c) {
  Value *s = c.make(OpKind::Mul, {c.dy, c.make(OpKind::Sin, {c.x()}, 0)}, 0);
  c.set(0, c.make(OpKind::Neg, {s}, 0));
  return {};
}

Status gradRelu(GradCtx &c) { // Relu'(0) = 0
  c.set(0, c.make(OpKind::ReluGrad, {c.dy, c.x()}, 0));
  return {};
}

Status gradGelu(GradCtx &c) {
  c.set(0, c.make(OpKind::GeluGrad, {c.dy, c.x()}, 0, {{"tanh", c.op.attrs.flag("tanh")}}));
  return {};
}

Status gradAdd(GradCtx &c) {
  for (int i : {0, 1})
    if (c.wants(i))
      c.set(i, c.dy);
  return {};
}

Status gradSub(GradCtx &c) {
  if (c.wants(0))
    c.set(0, c.dy);
  if (c.wants(1))
    c.set(1, c.make(OpKind::Neg, {c.dy}, 1));
  return {};
}

Status gradMul(GradCtx &c) {
  for (int i : {0, 1})
    if (c.wants(i))
      c.set(i, c.make(OpKind::Mul, {c.dy, c.x(1 - i)}, i));
  return {};
}

Status gradDiv(GradCtx &c) { // da = dy / b, db = -(dy / b) y
  Value *q = c.make(OpKind::Div, {c.dy, c.x(1)}, c.wants(0) ? 0 : 1);
  std::optional<double> known = splatValue(c.x(1));
  if (c.wants(0))
    c.set(0, known && *known != 0 ? q : zeroWithDy(c, q, 0));
  if (c.wants(1)) {
    Value *g = zeroWithDy(c, c.make(OpKind::Mul, {q, c.y()}, 1), 1);
    c.set(1, c.make(OpKind::Neg, {g}, 1));
  }
  return {};
}

// dx = dy e x^(e-1), with e = 0 giving 0 and not 0 * inf; de = dy y ln x, with x <= 0 giving 0.
Status gradPow(GradCtx &c) {
  Value *x = c.x(0), *e = c.x(1);
  std::optional<double> known = splatValue(e);
  if (c.wants(0)) {
    if (known == 2.0) {
      c.set(0, c.make(OpKind::Mul, {c.dy, c.make(OpKind::Add, {x, x}, 0)}, 0));
    } else if (known && *known != 0) {
      Value *p = c.make(OpKind::Pow, {x, c.scalar(*known - 1, x)}, 0);
      p = c.make(OpKind::Mul, {p, c.scalar(*known, x)}, 0);
      Value *g = c.make(OpKind::Mul, {c.dy, p}, 0);
      bool finite = *known >= 1 && *known == std::floor(*known);
      c.set(0, finite ? g : zeroWithDy(c, g, 0));
    } else if (!known) {
      Value *ex = e->type.dtype == x->type.dtype
                      ? e
                      : c.make(OpKind::Cast, {e}, 0, {{"to", std::string(text(x->type.dtype))}});
      Value *p = c.make(OpKind::Pow, {x, c.make(OpKind::Sub, {ex, c.scalar(1, x)}, 0)}, 0);
      p = c.make(OpKind::Mul, {p, ex}, 0);
      Value *isZero = c.make(OpKind::Eq, {ex, c.scalar(0, x)}, 0);
      p = c.make(OpKind::Where, {isZero, c.scalar(0, x), p}, 0);
      c.set(0, zeroWithDy(c, c.make(OpKind::Mul, {c.dy, p}, 0), 0));
    }
  }
  if (c.wants(1)) {
    Value *ln = c.make(OpKind::Log, {x}, 1);
    Value *positive = c.make(OpKind::Gt, {x, c.scalar(0, x)}, 1);
    Value *safe = c.make(OpKind::Where, {positive, ln, c.scalar(0, x)}, 1);
    Value *g = c.make(OpKind::Mul, {c.dy, c.make(OpKind::Mul, {c.y(), safe}, 1)}, 1);
    g = zeroWithDy(c, g, 1);
    if (e->type.dtype != g->type.dtype)
      g = c.make(OpKind::Cast, {g}, 1, {{"to", std::string(text(e->type.dtype))}});
    c.set(1, g);
  }
  return {};
}

// The winner takes dy; ties share it evenly, as torch.maximum does.
Status gradMaxMin(GradCtx &c) {
  OpKind beats = c.op.kind == OpKind::Max ? OpKind::Gt : OpKind::Lt;
  for (int i : {0, 1}) {
    if (!c.wants(i))
      continue;
    Value *wins = c.make(beats, {c.x(i), c.x(1 - i)}, i);
    Value *ties = c.make(OpKind::Eq, {c.x(i), c.x(1 - i)}, i);
    Value *half = c.make(OpKind::Where, {ties, c.scalar(0.5, c.dy), c.scalar(0, c.dy)}, i);
    Value *share = c.make(OpKind::Where, {wins, c.scalar(1, c.dy), half}, i);
    c.set(i, c.make(OpKind::Mul, {c.dy, share}, i));
  }
  return {};
}

// a - b * q with q = trunc (fmod) or floor of a/b, constant almost everywhere: da = dy, db = -dy q.
Status gradMod(GradCtx &c) {
  if (c.wants(0))
    c.set(0, c.dy);
  if (c.wants(1)) {
    Value *q = c.make(OpKind::Div, {c.make(OpKind::Sub, {c.x(0), c.y()}, 1), c.x(1)}, 1);
    q = c.make(OpKind::Round, {q}, 1);
    c.set(1, c.make(OpKind::Neg, {c.make(OpKind::Mul, {c.dy, q}, 1)}, 1));
  }
  return {};
}

// Selects, never multiplies by a mask: 0 * NaN must not leak.
Status gradWhere(GradCtx &c) {
  for (int i : {1, 2}) {
    if (!c.wants(i))
      continue;
    Value *zero = c.scalar(0, c.dy);
    Value *g = i == 1 ? c.make(OpKind::Where, {c.x(0), c.dy, zero}, i)
                      : c.make(OpKind::Where, {c.x(0), zero, c.dy}, i);
    c.set(i, g);
  }
  return {};
}

// The same mask on dy: it is drawn again, never stored.
Status gradDropout(GradCtx &c) {
  c.set(0, c.make(OpKind::Dropout, {c.dy, c.x(1)}, 0, c.op.attrs));
  return {};
}

Status gradCast(GradCtx &c) {
  if (!isFloat(c.y()->type.dtype)) // through integers: constant almost everywhere
    return {};
  c.set(0, c.make(OpKind::Cast, {c.dy}, 0, {{"to", std::string(text(c.x()->type.dtype))}}));
  return {};
}

} // namespace ds
