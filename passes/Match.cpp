// SPDX-License-Identifier: Apache-2.0
#include "passes/Match.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace ds {

Op *onlyUser(const Program &p, const Value *v) {
  bool one = v->users.size() == 1 && !llvm::is_contained(p.returns, v);
  return one ? v->users.front() : nullptr;
}

std::optional<double> constantOf(const Value *v) {
  if (v->def && v->def->kind == OpKind::Fill && isFloat(v->type.dtype))
    return v->def->attrs.f("value");
  return std::nullopt;
}

bool isConstant(const Value *v, double value) {
  std::optional<double> c = constantOf(v);
  return c && std::abs(*c - value) <= 1e-6 * std::abs(value);
}

Value *otherOperand(const Op &op, const Value *v) { return op.operands[op.operands[0] == v]; }

void eraseDead(Module &m, Program &p, Op *op) {
  bool used = !op || !op->info().isPure() || !op->bound.empty() ||
              llvm::any_of(op->results, [&](const Value *r) {
                return !r->users.empty() || llvm::is_contained(p.returns, r);
              });
  if (used)
    return;
  llvm::SmallVector<Op *, 4> makers;
  for (const Value *v : op->operands)
    if (v->def && !llvm::is_contained(makers, v->def))
      makers.push_back(v->def);
  m.eraseOp(op);
  for (Op *maker : makers)
    eraseDead(m, p, maker);
}

} // namespace ds
