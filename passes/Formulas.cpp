// SPDX-License-Identifier: Apache-2.0
//
// Formulas in the forms that exporters write, below opset 20 or on their way through a tracer:
//   x * 0.5 * (1 + erf(x / sqrt(2))), the factors in any order   ->   gelu x
//   x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))    ->   gelu x {tanh}
// A formula whose inner values are used elsewhere stays: they would be computed anyway. So nothing matches once
// autodiff has run.
#include "passes/Formulas.h"

#include "passes/Match.h"

#include <cmath>

namespace ds {

namespace {

// x of erf(x / sqrt(2)).
Value *scaledOperand(const Op &erf) {
  const Op *scale = erf.operands[0]->def;
  if (!scale || (scale->kind != OpKind::Div && scale->kind != OpKind::Mul))
    return nullptr;
  Value *a = scale->operands[0], *b = scale->operands[1];
  double root = std::sqrt(2.0);
  if (scale->kind == OpKind::Div)
    return isConstant(b, root) ? a : nullptr;
  return isConstant(b, 1 / root) ? a : isConstant(a, 1 / root) ? b : nullptr;
}

// The factors of a product, through inner products that nothing else reads.
void addFactors(const Program &p, Value *v, llvm::SmallVectorImpl<Value *> &out) {
  bool product = v->def && v->def->kind == OpKind::Mul && onlyUser(p, v) && out.size() < 4;
  if (!product)
    return out.push_back(v);
  addFactors(p, v->def->operands[0], out);
  addFactors(p, v->def->operands[1], out);
}

// The operand of product v that is not this constant, if there is one.
Value *besides(const Value *v, double constant) {
  const Op *op = v->def;
  if (!op || op->kind != OpKind::Mul)
    return nullptr;
  return isConstant(op->operands[1], constant)   ? op->operands[0]
         : isConstant(op->operands[0], constant) ? op->operands[1]
                                                 : nullptr;
}

bool isSquareOf(const Value *v, const Value *x) {
  const Op *op = v->def;
  return op &&
         ((op->kind == OpKind::Mul && op->operands[0] == x && op->operands[1] == x) ||
          (op->kind == OpKind::Pow && op->operands[0] == x && isConstant(op->operands[1], 2)));
}

bool isCubeOf(const Value *v, const Value *x) {
  const Op *op = v->def;
  if (!op || op->operands.size() != 2)
    return false;
  const Value *a = op->operands[0], *b = op->operands[1];
  if (op->kind == OpKind::Pow)
    return a == x && isConstant(b, 3);
  return op->kind == OpKind::Mul && ((a == x && isSquareOf(b, x)) || (b == x && isSquareOf(a, x)));
}

// x of tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).
Value *cubicOperand(const Program &p, const Op &tanh) {
  Value *cubic = besides(tanh.operands[0], std::sqrt(2 / M_PI));
  if (!cubic || !onlyUser(p, tanh.operands[0]) || !onlyUser(p, cubic) || !cubic->def ||
      cubic->def->kind != OpKind::Add)
    return nullptr;
  for (int i : {0, 1}) {
    Value *x = cubic->def->operands[i], *rest = cubic->def->operands[1 - i];
    Value *cube = onlyUser(p, rest) ? besides(rest, 0.044715) : nullptr;
    if (cube && onlyUser(p, cube) && isCubeOf(cube, x))
      return x;
  }
  return nullptr;
}

void recognizeGelu(Module &m, Program &p, const Op &curve) {
  bool isTanh = curve.kind == OpKind::Tanh;
  Value *x = isTanh ? cubicOperand(p, curve) : scaledOperand(curve);
  Op *sum = x ? onlyUser(p, curve.result()) : nullptr;
  if (!sum || sum->kind != OpKind::Add || !isConstant(otherOperand(*sum, curve.result()), 1))
    return;
  // The product of sum, x and 0.5 is one or two products above.
  Op *root = onlyUser(p, sum->result());
  for (int level = 0; root && root->kind == OpKind::Mul && level < 2; ++level) {
    llvm::SmallVector<Value *, 4> factors;
    addFactors(p, root->operands[0], factors);
    addFactors(p, root->operands[1], factors);
    auto count = [&](auto is) { return llvm::count_if(factors, is); };
    if (factors.size() == 3 && count([&](Value *v) { return v == x; }) == 1 &&
        count([&](Value *v) { return v == sum->result(); }) == 1 &&
        count([&](Value *v) { return isConstant(v, 0.5); }) == 1 &&
        root->result()->type == x->type) {
      Builder b(m, p);
      b.before = root;
      b.phase = root->phase;
      b.origin = root->origin;
      std::string name = root->result()->name;
      m.rename(p, root->result(), p.uniqueName(name + ".formula"));
      replaceAllUses(root->result(), b.op(OpKind::Gelu, {x}, name, {{"tanh", isTanh}}), &p);
      return;
    }
    root = onlyUser(p, root->result());
  }
}

} // namespace

void recognizeFormulas(Module &m, Program &p) {
  llvm::SmallVector<const Op *> curves;
  for (const Op &op : p.ops)
    if (op.kind == OpKind::Erf || op.kind == OpKind::Tanh)
      curves.push_back(&op);
  for (const Op *op : curves)
    recognizeGelu(m, p, *op);
}

} // namespace ds
