// SPDX-License-Identifier: Apache-2.0
//
// Gradients of matrix products, normalisation and losses.
#include "passes/Grad.h"

namespace ds {

// With a weight of rank 2 and a batched other side, the weight's gradient is one product over all rows
// instead of one per batch element and a sum.
static bool flattenRows(Value *weight, Value *other, bool otherTransposed) {
  return weight->type.rank() == 2 && other->type.rank() > 2 && !otherTransposed;
}

static Value *asRows(GradCtx &c, Value *v, int i) {
  const std::vector<int64_t> &d = v->type.dims;
  int64_t rows = 1;
  for (size_t a = 0; a + 1 < d.size(); ++a)
    rows *= d[a];
  return c.make(OpKind::Reshape, {v}, i, {{"dims", std::vector<int64_t>{rows, d.back()}}});
}

// With y = a' b' (a' and b' after the transposes): da' = dy b'^T, db' = a'^T dy.
Status gradMatmul(GradCtx &c) {
  bool ta = c.op.attrs.flag("trans_a"), tb = c.op.attrs.flag("trans_b");
  Value *a = c.x(0), *b = c.x(1), *dy = c.dy;
  auto product = [&](Value *l, Value *r, bool tl, bool tr, int i) {
    return c.make(OpKind::Matmul, {l, r}, i, {{"trans_a", tl}, {"trans_b", tr}});
  };
  if (c.wants(0))
    c.set(0, ta ? product(b, dy, tb, true, 0) : product(dy, b, false, !tb, 0));
  if (!c.wants(1))
    return {};
  if (flattenRows(b, a, ta)) {
    Value *rowsA = asRows(c, a, 1), *rowsDy = asRows(c, dy, 1);
    c.set(1, tb ? product(rowsDy, rowsA, true, false, 1) : product(rowsA, rowsDy, true, false, 1));
  } else {
    c.set(1, tb ? product(dy, a, true, ta, 1) : product(a, dy, !ta, false, 1));
  }
  return {};
}

// With y = x w' + bias: dx = dy w'^T; dw and dbias by one op, which reads dy once, where both are wanted.
Status gradLinear(GradCtx &c) {
  bool trans = c.op.attrs.flag("trans_b");
  Value *x = c.x(0), *w = c.x(1), *dy = c.dy;
  if (c.wants(0))
    c.set(0, c.make(OpKind::Matmul, {dy, w}, 0, {{"trans_a", false}, {"trans_b", !trans}}));
  if (c.wants(1) && c.wants(2)) {
    Op *g = c.b.create(OpKind::LinearGrad, {x, dy}, {c.name(1), c.name(2)}, c.op.attrs);
    c.set(1, g->result(0));
    c.set(2, g->result(1));
  } else if (c.wants(1)) {
    Value *left = asRows(c, x, 1), *right = asRows(c, dy, 1);
    if (trans)
      std::swap(left, right);
    c.set(1, c.make(OpKind::Matmul, {left, right}, 1, {{"trans_a", true}, {"trans_b", false}}));
  } else if (c.wants(2)) {
    c.set(2, dy);
  }
  return {};
}

Status gradLayerNorm(GradCtx &c) {
  bool bias = c.op.operands.size() > 2;
  Op *g = c.b.create(OpKind::LayerNormGrad, {c.dy, c.x(0), c.x(1), c.y(1), c.y(2)},
                     {c.name(0), c.name(1), bias ? c.name(2) : c.name(1) + ".bias"},
                     {{"axis", c.op.attrs.i("axis", -1)}});
  for (int i = 0; i < (bias ? 3 : 2); ++i)
    if (c.wants(i))
      c.set(i, g->result(i));
  return {};
}

Status gradRmsNorm(GradCtx &c) {
  Op *g = c.b.create(OpKind::RmsNormGrad, {c.dy, c.x(0), c.x(1), c.y(1)}, {c.name(0), c.name(1)},
                     {{"axis", c.op.attrs.i("axis", -1)}});
  for (int i : {0, 1})
    if (c.wants(i))
      c.set(i, g->result(i));
  return {};
}

// Probabilities are computed again from the scores and lse.
Status gradAttention(GradCtx &c) {
  bool mask = c.op.operands.size() > 3;
  if (mask && c.wants(3))
    return Status::error("attention has no gradient for its mask, which depends on a parameter")
        .at(c.op.origin.node.empty() ? "%" + c.y()->name : "onnx(" + c.op.origin.node + ")");
  llvm::SmallVector<Value *, 7> operands{c.dy, c.x(0), c.x(1), c.x(2), c.y(0), c.y(1)};
  if (mask)
    operands.push_back(c.x(3));
  Op *g =
      c.b.create(OpKind::AttentionGrad, operands, {c.name(0), c.name(1), c.name(2)}, c.op.attrs);
  for (int i = 0; i < 3; ++i)
    if (c.wants(i))
      c.set(i, g->result(i));
  return {};
}

Status gradBatchNorm(GradCtx &c) {
  Op *g = c.b.create(OpKind::BatchNormGrad, {c.dy, c.x(0), c.x(1), c.y(1), c.y(2)},
                     {c.name(0), c.name(1), c.name(2)}, {{"eps", c.op.attrs.f("eps", 1e-5)}});
  for (int i = 0; i < 3; ++i)
    if (c.wants(i))
      c.set(i, g->result(i));
  return {};
}

// The window's inverse count, times dy where the loss is scaled further: before anything is rounded to 16 bits.
static Value *scaledInverse(GradCtx &c, int operand = 2) {
  Value *inv = c.x(operand), *dy = c.dy;
  if (c.seedIsOne())
    return inv;
  if (dy->type.dtype != inv->type.dtype)
    dy = c.make(OpKind::Cast, {dy}, 0, {{"to", std::string(text(inv->type.dtype))}});
  return c.make(OpKind::Mul, {inv, dy}, 0);
}

Status gradCrossEntropy(GradCtx &c) {
  c.set(0, c.make(OpKind::CrossEntropyGrad, {c.x(0), c.x(1), c.y(1), scaledInverse(c)}, 0,
                  {{"ignore_index", c.op.attrs.i("ignore_index", -100)}}));
  return {};
}

// The same op gives the loss again: join-loss lets it be the only one.
Status gradLinearCrossEntropy(GradCtx &c) {
  llvm::SmallVector<Value *, 6> operands{c.x(0), c.x(1), c.x(2), c.x(3), scaledInverse(c, 3)};
  bool bias = c.op.operands.size() > 4;
  if (bias)
    operands.push_back(c.x(4));
  Op *g = c.b.create(
      OpKind::LinearCrossEntropyGrad, operands,
      {c.y()->name + ".re", c.name(0), c.name(1), bias ? c.name(4) : c.name(1) + ".bias"},
      c.op.attrs);
  for (auto [operand, result] : {std::pair(0, 1), {1, 2}, {4, 3}})
    if (operand < static_cast<int>(c.op.operands.size()) && c.wants(operand))
      c.set(operand, g->result(result));
  return {};
}

Status gradMse(GradCtx &c) {
  int first = c.wants(0) ? 0 : 1;
  Value *g = c.make(OpKind::MseGrad, {c.x(0), c.x(1), scaledInverse(c)}, first);
  if (c.wants(0))
    c.set(0, g);
  if (c.wants(1))
    c.set(1, c.make(OpKind::Neg, {g}, 1));
  return {};
}

} // namespace ds
