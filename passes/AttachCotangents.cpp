// SPDX-License-Identifier: Apache-2.0
//
// attach-cotangents: makes the sum of every float output times its cotangent, a new input, the loss of @micro;
// its gradient is the vector-Jacobian product.
//   return %y   ->   %y.dot = mul %y, %y.cotangent; %loss = reduce_sum %y.dot; return %loss
// Parameters that dsplan.wrt does not match are not trainable any more; of inputs autodiff sees to that. Cotangents
// are labels: nothing is differentiated for them.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/Support/Regex.h"

#include <numeric>

namespace ds {

namespace {

// What --wrt may name, for messages.
std::string candidates(const Module &m, const Program &p) {
  std::string s;
  int more = 0;
  auto add = [&](const Value &v) {
    if (!isFloat(v.type.dtype))
      return;
    if (s.size() > 200)
      ++more;
    else
      s += (s.empty() ? "" : ", ") + v.name;
  };
  for (Value *in : p.inputs)
    add(*in);
  for (Symbol *y : m.symbols())
    if (y->symbolKind == SymbolKind::Param)
      add(*y);
  return s.empty() ? "none" : s + (more ? " and " + std::to_string(more) + " more" : "");
}

Status chooseWrt(Module &m, Program &p, const PlanConfig &c) {
  llvm::Regex wrt(c.wrt);
  std::string error;
  if (!wrt.isValid(error))
    return Status::error("--wrt '" + c.wrt + "': " + error);
  bool found = false;
  for (Value *in : p.inputs)
    found |= isFloat(in->type.dtype) && wrt.match(in->name);
  for (Symbol *s : m.symbols()) {
    if (s->symbolKind != SymbolKind::Param)
      continue;
    s->trainable = wrt.match(s->name) || (!s->exportName.empty() && wrt.match(s->exportName)) ||
                   (!s->module.empty() && wrt.match(s->module));
    found |= s->trainable;
  }
  if (!found)
    return Status::error("--wrt '" + c.wrt + "' matches no float input, parameter or module path")
        .note("there are: " + candidates(m, p));
  return {};
}

} // namespace

Status attachCotangents(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (!p)
    return Status::error("attach-cotangents: the module has no func @micro");
  if (c.wrt.empty())
    return Status::error("attach-cotangents: nothing says what is differentiated; give --wrt REGEX")
        .note("there are: " + candidates(m, *p));
  TRY(chooseWrt(m, *p, c));
  llvm::SmallVector<Value *> outputs;
  for (Value *y : p->returns)
    if (isFloat(y->type.dtype))
      outputs.push_back(y);
  if (outputs.empty())
    return Status::error("attach-cotangents: the model has no float output, and nothing else has "
                         "a gradient");
  bool mixed =
      llvm::any_of(outputs, [&](Value *y) { return y->type.dtype != outputs[0]->type.dtype; });
  Builder b(m, *p);
  b.origin.pass = "attach-cotangents";
  Value *loss = nullptr;
  for (Value *y : outputs) {
    Value *cotangent = m.addInput(*p, p->uniqueName(y->name + ".cotangent"), y->type);
    cotangent->input.role = InputMeta::Role::Label;
    Value *sum = b.op(OpKind::Mul, {y, cotangent}, y->name + ".dot");
    std::vector<int64_t> axes(static_cast<size_t>(y->type.rank()));
    std::iota(axes.begin(), axes.end(), 0);
    if (!axes.empty())
      sum = b.op(OpKind::ReduceSum, {sum}, "loss", {{"axes", axes}});
    if (mixed && sum->type.dtype != DType::F64)
      sum = b.op(OpKind::Cast, {sum}, "loss", {{"to", std::string(text(DType::F64))}});
    loss = loss ? b.op(OpKind::Add, {loss, sum}, "loss") : sum;
  }
  p->returns.assign({loss});
  return {};
}

} // namespace ds
