// SPDX-License-Identifier: Apache-2.0
//
// canonicalize: removes ops that change nothing, merges equal pure ops of one phase, puts one op where exporters
// spell out a formula (Formulas.cpp), joins padded pieces (JoinPads.cpp), and drops pure ops without users. Runs after
// import and again after autodiff.
//   %b = reshape %a : same dims, add %a, 0, mul %a, 1   ->   uses of %b read %a
//   %c = add %x, %y; %d = add %x, %y   ->   uses of %d read %c
//   %c = add @b, %x   ->   %c = add %x, @b: computed values first, then constants, then symbols
// Equal ops of different phases stay apart: merging them would hold the forward value until backward.
#include "ir/Graph.h"
#include "ir/GraphText.h"
#include "passes/Formulas.h"
#include "passes/Passes.h"

#include <map>

namespace ds {

namespace {

// The fill whose one value is all that v holds, in whatever shape.
const Op *fillOf(const Value *v) {
  const Op *op = v->def;
  while (op && (op->kind == OpKind::Reshape || op->kind == OpKind::Broadcast))
    op = op->operands[0]->def;
  return op && op->kind == OpKind::Fill ? op : nullptr;
}

// x + 0, x - 0, x * 1, x / 1: masks that hide nothing, scales that change nothing, the zero bias that torch.export gives
// a convolution without one. (-0 + 0 stays -0.)
bool isNeutral(const Op &op, double neutral) {
  const Op *fill = fillOf(op.operands[1]);
  return fill && fill->attrs.f("value") == neutral &&
         op.operands[0]->type.dims == op.result()->type.dims;
}

bool isIdentity(const Op &op) {
  const Type &in = op.operands.empty() ? op.result()->type : op.operands[0]->type;
  switch (op.kind) {
  case OpKind::Reshape:
  case OpKind::Broadcast:
    return in.dims == op.result()->type.dims;
  case OpKind::Cast:
    return in.dtype == op.result()->type.dtype;
  case OpKind::Transpose: {
    std::vector<int64_t> perm = op.attrs.list("perm");
    for (size_t i = 0; i < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i))
        return false;
    return true;
  }
  case OpKind::Slice:
    return in.dims == op.result()->type.dims;
  case OpKind::Add:
  case OpKind::Sub:
    return isNeutral(op, 0);
  case OpKind::Mul:
  case OpKind::Div:
    return isNeutral(op, 1);
  default:
    return false;
  }
}

// reshape of reshape reads the first operand.
void shortenReshapes(Op &op) {
  if (op.kind != OpKind::Reshape)
    return;
  Op *inner = op.operands[0]->def;
  if (inner && inner->kind == OpKind::Reshape)
    op.setOperand(0, inner->operands[0]);
}

// Exporters write x + b and b + x: the one that is computed comes first. Both round alike.
void orderOperands(Op &op) {
  static constexpr OpKind kCommutative[] = {OpKind::Add, OpKind::Mul, OpKind::Eq,
                                            OpKind::And, OpKind::Or,  OpKind::Xor};
  if (!llvm::is_contained(kCommutative, op.kind))
    return;
  auto rank = [](const Value *v) {
    bool constant = v->def && (v->def->operands.empty() || fillOf(v));
    return v->isSymbol() ? 2 : constant ? 1 : 0;
  };
  Value *a = op.operands[0], *b = op.operands[1];
  if (rank(a) <= rank(b))
    return;
  op.setOperand(0, b);
  op.setOperand(1, a);
}

std::string keyOf(const Op &op) {
  std::string key = std::string(op.info().text) + "|" + std::to_string(static_cast<int>(op.phase));
  for (Value *v : op.operands)
    key += (v->isSymbol() ? "|@" : "|%") + v->name;
  for (const auto &[name, value] : op.attrs)
    key += "|" + name + "=" + attrText(value);
  return key;
}

void mergeEqual(Module &m, Program &p) {
  std::map<std::string, Op *> seen;
  for (auto it = p.ops.begin(); it != p.ops.end();) {
    Op &op = *it++;
    if (!op.info().isPure() || !op.bound.empty())
      continue;
    shortenReshapes(op);
    orderOperands(op);
    bool returned =
        llvm::any_of(op.results, [&](Value *r) { return llvm::is_contained(p.returns, r); });
    if (isIdentity(op) && !returned) {
      replaceAllUses(op.result(), op.operands[0], &p);
      m.eraseOp(&op);
      continue;
    }
    auto [found, isNew] = seen.try_emplace(keyOf(op), &op);
    if (isNew || returned)
      continue;
    for (size_t r = 0; r < op.results.size(); ++r)
      replaceAllUses(op.results[r], found->second->results[r], &p);
    m.eraseOp(&op);
  }
}

void dropDead(Module &m, Program &p) {
  for (auto it = p.ops.end(); it != p.ops.begin();) {
    Op &op = *--it;
    bool used = !op.bound.empty() || !op.info().isPure();
    for (Value *r : op.results)
      used |= !r->users.empty() || llvm::is_contained(p.returns, r);
    if (used)
      continue;
    ++it;
    m.eraseOp(&op);
  }
}

} // namespace

Status canonicalize(Module &m, const PlanConfig &) {
  for (Program *p : m.programs()) {
    mergeEqual(m, *p);
    recognizeFormulas(m, *p);
    joinPads(m, *p);
    dropDead(m, *p);
  }
  return {};
}

} // namespace ds
