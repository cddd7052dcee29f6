// SPDX-License-Identifier: Apache-2.0
//
// form-forward: the micro-batch as one program that keeps nothing.
//   param @w ...; func @micro(%x) {... return %y}   ->   const @w ...; program @forward(%x) {... return %y}
// Behind autodiff the gradients are returned instead of the loss, those of inputs and parameters that it does not
// depend on as zeros.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"

namespace ds {

static void returnGradients(Module &m, Program &p, const PlanConfig &c) {
  llvm::SmallVector<Value *> found(p.returns.begin() + 1, p.returns.end());
  Builder b(m, p);
  b.phase = Phase::Backward;
  b.origin.pass = "form-forward";
  p.returns.clear();
  auto add = [&](const Value &v) {
    std::string name = v.name + ".grad";
    auto it = llvm::find_if(found, [&](Value *g) { return g->name == name; });
    if (it != found.end())
      return p.returns.push_back(*it);
    if (Value *other = p.find(name))
      m.rename(p, other, p.uniqueName(name + ".part"));
    p.returns.push_back(
        b.op(OpKind::Fill, {}, name,
             {{"dims", v.type.dims}, {"dtype", std::string(text(v.type.dtype))}, {"value", 0.0}}));
  };
  llvm::Regex wrt(c.wrt);
  for (Value *in : p.inputs)
    if (in->input.role == InputMeta::Role::Data && isFloat(in->type.dtype) && wrt.match(in->name))
      add(*in);
  for (Symbol *s : m.symbols())
    if (s->symbolKind == SymbolKind::Param && s->trainable && isFloat(s->type.dtype))
      add(*s);
}

Status formForward(Module &m, const PlanConfig &c) {
  Program *micro = m.program("micro");
  if (!micro)
    return Status::error("form-forward: the module has no func @micro");
  if (llvm::any_of(micro->ops, [](const Op &op) { return op.phase == Phase::Backward; }))
    returnGradients(m, *micro, c);
  for (Value *in : micro->inputs)
    in->input = {};
  for (Symbol *s : m.symbols())
    if (s->symbolKind == SymbolKind::Param)
      s->symbolKind = SymbolKind::Const;
  Program *forward = cloneProgram(m, *micro, "forward");
  forward->isFunc = false;
  m.eraseProgram(micro);
  return {};
}

} // namespace ds
