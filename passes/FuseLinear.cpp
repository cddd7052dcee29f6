// SPDX-License-Identifier: Apache-2.0
//
// fuse-linear: a product with a matrix and the bias that is added to it as one op, which rounds once.
//   %h = matmul %x, @w; %y = add %h, @b   ->   %y = linear %x, @w, @b
// fuse-gelu-grad: what flows back through the product behind a gelu, and the gelu's slope. It comes before anybody decides what is
// computed again, so that all plans of a model round the same.
//   %g = matmul %dy, @w {trans_b}; %dx = gelu_grad %g, %x   ->   %dx = linear_gelu_grad %dy, @w, %x {trans_b}
#include "passes/Match.h"
#include "passes/Passes.h"

namespace ds {

namespace {

// Rows times a matrix of rank 2.
bool isRowsTimesMatrix(const Op &op) {
  return op.kind == OpKind::Matmul && !op.attrs.flag("trans_a") &&
         op.operands[1]->type.rank() == 2 && isFloat(op.result()->type.dtype);
}

// The new op takes the name of `last`, and its place.
void replace(Module &m, Program &p, Op &last, const Op &product, OpKind k,
             llvm::ArrayRef<Value *> operands, Attrs attrs, llvm::ArrayRef<int64_t> rows) {
  Builder b(m, p);
  b.before = &last;
  b.phase = last.phase;
  b.origin = product.origin;
  Value *old = last.result();
  std::string name = old->name;
  bool reshapes = rows != llvm::ArrayRef<int64_t>(old->type.dims);
  m.rename(p, old, p.uniqueName(name + ".unfused"));
  Value *fused = b.op(k, operands, reshapes ? name + ".rows" : name, std::move(attrs));
  if (reshapes)
    fused = b.op(OpKind::Reshape, {fused}, name, {{"dims", old->type.dims}});
  replaceAllUses(old, fused, &p);
  eraseDead(m, p, &last);
}

void fuseBias(Module &m, Program &p, Op &product) {
  Value *y = product.result();
  Op *sum = onlyUser(p, y);
  if (!sum || sum->kind != OpKind::Add || sum->result()->type != y->type)
    return;
  Value *bias = otherOperand(*sum, y);
  if (bias->type.dims == std::vector<int64_t>{y->type.dims.back()})
    replace(m, p, *sum, product, OpKind::Linear, {product.operands[0], product.operands[1], bias},
            {{"trans_b", product.attrs.flag("trans_b")}}, y->type.dims);
}

void fuseSlope(Module &m, Program &p, Op &slope) {
  // Through what only gives the rows other axes.
  Value *g = slope.operands[0];
  while (g->def && g->def->kind == OpKind::Reshape && onlyUser(p, g))
    g = g->def->operands[0];
  if (!g->def || !onlyUser(p, g) || !isRowsTimesMatrix(*g->def))
    return;
  Op &product = *g->def;
  Value *x = slope.operands[1];
  if (x->type.dims != g->type.dims) {
    Builder b(m, p);
    b.before = &slope;
    b.phase = slope.phase;
    b.origin = slope.origin;
    x = b.op(OpKind::Reshape, {x}, x->name + ".rows", {{"dims", g->type.dims}});
  }
  replace(m, p, slope, product, OpKind::LinearGeluGrad,
          {product.operands[0], product.operands[1], x},
          {{"trans_b", product.attrs.flag("trans_b")}, {"tanh", slope.attrs.flag("tanh")}},
          g->type.dims);
}

void forEach(Module &m, const PlanConfig &c, OpKind k, void (*fuse)(Module &, Program &, Op &)) {
  Program *p = m.program("micro");
  if (!p || c.fuse == "off")
    return;
  llvm::SmallVector<Op *, 32> found;
  for (Op &op : p->ops)
    if (op.kind == k)
      found.push_back(&op);
  for (Op *op : found)
    fuse(m, *p, *op);
}

} // namespace

Status fuseLinear(Module &m, const PlanConfig &c) {
  forEach(m, c, OpKind::Matmul, [](Module &m, Program &p, Op &op) {
    if (isRowsTimesMatrix(op))
      fuseBias(m, p, op);
  });
  return {};
}

Status fuseGeluGrad(Module &m, const PlanConfig &c) {
  forEach(m, c, OpKind::GeluGrad, fuseSlope);
  return {};
}

} // namespace ds
