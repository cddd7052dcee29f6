// SPDX-License-Identifier: Apache-2.0
//
// convert-float: gives every float value of @micro the element type that --dtype asks for (f64 for checks against
// f64 references). Stored weights and constants keep their type and are converted on load.
//   %h = matmul %x, @w : f32[8,5]   ->   %h = matmul %x, @w : f64[8,5]
// Counts of labels and their inverse are f64 whatever the computation's type, and stay so.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseSet.h"

namespace ds {

namespace {

// The operand of a loss that is the window's inverse count, or -1.
int inverseOperand(OpKind k) {
  switch (k) {
  case OpKind::CrossEntropy:
  case OpKind::Mse:
    return 2;
  case OpKind::LinearCrossEntropy:
    return 3;
  default:
    return -1;
  }
}

// The f64 values that a count or the inverse of a loss is computed from.
void findCounts(Program &p, llvm::DenseSet<Value *> &found) {
  llvm::SmallVector<Value *, 8> work;
  for (Op &op : p.ops)
    if (int i = inverseOperand(op.kind); i >= 0)
      work.push_back(op.operands[i]);
    else if (op.kind == OpKind::InvCount)
      work.push_back(op.result());
  while (!work.empty()) {
    Value *v = work.pop_back_val();
    if (v->type.dtype == DType::F64 && found.insert(v).second && v->def)
      work.append(v->def->operands.begin(), v->def->operands.end());
  }
}

Status convertOps(Module &m, Program &p, const llvm::DenseSet<Value *> &counts,
                  const std::string &to) {
  Builder b(m, p);
  for (Op &op : p.ops) {
    if (llvm::any_of(op.results, [&](Value *r) { return counts.count(r) != 0; }))
      continue;
    for (const char *attr : {"to", "dtype"})
      if (const AttrValue *v = op.attrs.find(attr))
        if (auto d = dtypeFromText(std::get<std::string>(*v)); d && isFloat(*d))
          op.attrs.set(attr, to);
    if (op.kind == OpKind::Cast)
      continue;
    b.before = &op;
    b.origin = op.origin;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (counts.count(op.operands[i]) && inverseOperand(op.kind) != static_cast<int>(i))
        op.setOperand(static_cast<int>(i), b.op(OpKind::Cast, {op.operands[i]},
                                                op.operands[i]->name + "." + to, {{"to", to}}));
  }
  return reinferTypes(m, p);
}

} // namespace

Status convertFloat(Module &m, const PlanConfig &c) {
  if (c.dtype.empty())
    return {};
  std::optional<DType> to = dtypeFromText(c.dtype);
  if (to != DType::F32 && to != DType::F64)
    return Status::error("--dtype " + c.dtype + " is not supported; expected f32 or f64");
  llvm::DenseSet<Value *> counts;
  if (to != DType::F64)
    for (Program *p : m.programs())
      findCounts(*p, counts);
  std::string name(text(*to));
  for (Symbol *s : m.symbols())
    if (isFloat(s->type.dtype) && s->type.dtype != *to && !counts.count(s))
      s->type.dtype = *to;
  for (Program *p : m.programs()) {
    for (Value *in : p->inputs)
      if (isFloat(in->type.dtype) && !counts.count(in))
        in->type.dtype = *to;
    TRY(convertOps(m, *p, counts, name));
  }
  return {};
}

} // namespace ds
