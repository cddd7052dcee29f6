// SPDX-License-Identifier: Apache-2.0
//
// fuse-norm: root-mean-square normalisation as one op.
//   %q = pow %x, 2; %s = reduce_sum %q {axes=[last], keepdims}; %m = div %s, n; %e = add %m, eps; %r = sqrt %e;
//   %i = reciprocal %r; %h = mul %x, %i; %y = mul %h, @scale   ->   %y, %y.rstd = rms_norm %x, @scale {eps=eps}
// The square may be a product, the mean a product with 1 / n, the last steps a power of -0.5 or a quotient. What has other users
// stays as it is.
#include "passes/Match.h"
#include "passes/Passes.h"

namespace ds {

namespace {

// x of x^2.
Value *squareRoot(const Value *v) {
  const Op *op = v->def;
  if (!op)
    return nullptr;
  bool square = (op->kind == OpKind::Pow && isConstant(op->operands[1], 2)) ||
                (op->kind == OpKind::Mul && op->operands[0] == op->operands[1]);
  return square ? op->operands[0] : nullptr;
}

// The only user of v, if it is of this kind and v its first operand.
Op *next(const Program &p, const Value *v, OpKind k) {
  Op *op = onlyUser(p, v);
  return op && op->kind == k && op->operands[0] == v ? op : nullptr;
}

// Of the mean square: x over its root.
Op *normalised(const Program &p, const Value *x, const Op &shifted) {
  Value *root = nullptr;
  if (Op *power = next(p, shifted.result(), OpKind::Pow))
    root = isConstant(power->operands[1], -0.5) ? power->result() : nullptr;
  else if (Op *sqrt = next(p, shifted.result(), OpKind::Sqrt))
    root = sqrt->result();
  if (!root)
    return nullptr;
  Op *user = onlyUser(p, root);
  if (!user)
    return nullptr;
  if (root->def->kind == OpKind::Sqrt) {
    if (user->kind == OpKind::Div)
      return user->operands[0] == x && user->operands[1] == root ? user : nullptr;
    if (user->kind != OpKind::Reciprocal)
      return nullptr;
    root = user->result();
    user = onlyUser(p, root);
  }
  return user && user->kind == OpKind::Mul && otherOperand(*user, root) == x ? user : nullptr;
}

void fuse(Module &m, Program &p, Op &sum) {
  Value *x = squareRoot(sum.operands[0]);
  if (!x || !onlyUser(p, sum.operands[0]) || x->type.rank() == 0 || !sum.attrs.flag("keepdims") ||
      sum.attrs.list("axes") != std::vector<int64_t>{x->type.rank() - 1})
    return;
  auto n = static_cast<double>(x->type.dims.back());
  Op *mean = onlyUser(p, sum.result());
  bool isMean = mean && mean->operands[0] == sum.result() &&
                ((mean->kind == OpKind::Div && isConstant(mean->operands[1], n)) ||
                 (mean->kind == OpKind::Mul && isConstant(mean->operands[1], 1 / n)));
  Op *shifted = isMean ? next(p, mean->result(), OpKind::Add) : nullptr;
  std::optional<double> eps = shifted ? constantOf(shifted->operands[1]) : std::nullopt;
  Op *h = eps && *eps >= 0 ? normalised(p, x, *shifted) : nullptr;
  Op *scaled = h && h->result()->type == x->type ? onlyUser(p, h->result()) : nullptr;
  if (!scaled || scaled->kind != OpKind::Mul || scaled->operands[0] == scaled->operands[1])
    return;
  Value *scale = otherOperand(*scaled, h->result()), *y = scaled->result();
  if (scale->type.dims != std::vector<int64_t>{x->type.dims.back()} ||
      scale->type.dtype != x->type.dtype)
    return;
  Builder b(m, p);
  b.before = scaled;
  b.phase = scaled->phase;
  b.origin = scaled->origin;
  std::string name = y->name;
  m.rename(p, y, p.uniqueName(name + ".unfused"));
  Op *fused = b.create(OpKind::RmsNorm, {x, scale}, {name, name + ".rstd"}, {{"eps", *eps}});
  replaceAllUses(y, fused->result(), &p);
  eraseDead(m, p, scaled);
}

} // namespace

Status fuseNorm(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (!p || c.fuse == "off")
    return {};
  llvm::SmallVector<Op *, 32> sums;
  for (Op &op : p->ops)
    if (op.kind == OpKind::ReduceSum)
      sums.push_back(&op);
  for (Op *op : sums)
    fuse(m, *p, *op);
  return {};
}

} // namespace ds
