// SPDX-License-Identifier: Apache-2.0
//
// autodiff: appends the backward phase by a reverse walk over the forward phase.
//   return %loss   ->   backward: ...; return %loss, %w1.grad, %w2.grad
// Entry: func @micro returns the loss, 0-d, first. Exit: one returned gradient "<param>.grad" per trainable
// parameter that the loss depends on; the others get none and stay unchanged. Contributions to one value are
// added in the order of the walk, which starts from 1, or from @loss_scale. No op is differentiated that does not lie
// between a trainable parameter and the loss. With dsplan.wrt, inputs that it matches count as trainable parameters.
#include "passes/Grad.h"
#include "passes/Passes.h"
#include "passes/Precision.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/Regex.h"

namespace ds {

namespace {

using GradFn = Status (*)(GradCtx &);
GradFn gradRule(OpKind k) {
  static constexpr GradFn rules[] = {
#define OP(kind, text, minIn, maxIn, outs, attrs, shape, rule, traits) grad##rule,
#include "ir/Ops.def"
#undef OP
  };
  return rules[static_cast<size_t>(k)];
}

class ReverseWalk {
public:
  ReverseWalk(Module &m, Program &p, const PlanConfig &c) : module(m), program(p), builder(m, p) {
    for (Symbol *s : m.symbols())
      if (s->symbolKind == SymbolKind::Param && s->trainable && isFloat(s->type.dtype))
        leaves.push_back(s);
    llvm::Regex wrt(c.wrt);
    for (Value *in : p.inputs)
      if (!c.wrt.empty() && in->input.role == InputMeta::Role::Data && isFloat(in->type.dtype) &&
          wrt.match(in->name))
        leaves.push_back(in);
  }

  Status run(Value *loss) {
    markActive();
    if (!active.count(loss))
      return Status::error("autodiff: the loss %" + loss->name +
                           " does not depend on any trainable parameter");
    llvm::SmallVector<Op *> forward;
    for (Op &op : program.ops)
      forward.push_back(&op);
    builder.phase = Phase::Backward;
    builder.origin.pass = "autodiff";
    std::string type(text(loss->type.dtype)), name = loss->name + ".grad";
    if (Symbol *scale = findLossScale(module))
      gradient[loss] = builder.op(OpKind::Cast, {scale}, name, {{"to", type}});
    else
      gradient[loss] =
          builder.op(OpKind::Fill, {}, name,
                     {{"dims", std::vector<int64_t>{}}, {"dtype", type}, {"value", 1.0}});
    for (auto it = forward.rbegin(); it != forward.rend(); ++it)
      TRY(visit(**it));
    nameGradients();
    return {};
  }

private:
  // Active: a float value that depends on a trainable parameter.
  void markActive() {
    active.insert(leaves.begin(), leaves.end());
    for (Op &op : program.ops) {
      bool any = llvm::any_of(op.operands, [&](Value *v) { return active.count(v) != 0; });
      for (Value *r : op.results)
        if (any && isFloat(r->type.dtype))
          active.insert(r);
    }
  }

  Status visit(Op &op) {
    auto found = gradient.find(op.results.empty() ? nullptr : op.result());
    for (size_t r = 1; r < op.results.size(); ++r)
      if (gradient.count(op.results[r]))
        return Status::error(std::string(op.info().text) + ": result %" + op.results[r]->name +
                             " is used by the loss, but only the first result has a gradient")
            .at("onnx(" + op.origin.node + ")");
    if (found == gradient.end() || !active.count(op.result()))
      return {};
    if (op.kind == OpKind::Copy) { // the same values elsewhere
      contribute(op.operands[0], found->second);
      return {};
    }
    builder.origin.node = op.origin.node;
    builder.origin.module = op.origin.module;
    llvm::SmallVector<Value *, 4> grads(op.operands.size(), nullptr);
    std::function<bool(const Value *)> wants = [&](const Value *v) { return active.count(v) != 0; };
    GradCtx ctx{builder, op, found->second, grads, wants};
    TRY(gradRule(op.kind)(ctx));
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i] && active.count(op.operands[i]))
        contribute(op.operands[i], grads[i]);
    return {};
  }

  void contribute(Value *v, Value *g) {
    Value *&slot = gradient[v];
    slot = slot ? builder.op(OpKind::Add, {slot, g}, v->name + ".grad") : g;
  }

  // Parameter gradients must be distinct values with the parameter's own name, also where a rule passed
  // dy through unchanged or one value serves two parameters.
  void nameGradients() {
    llvm::DenseSet<Value *> taken;
    for (Value *s : leaves) {
      auto it = gradient.find(s);
      if (it == gradient.end())
        continue;
      Value *g = it->second;
      if (!g->def || g->def->phase != Phase::Backward || g->def->kind == OpKind::Fill ||
          g->name.find(s->name + ".grad") != 0 || !taken.insert(g).second)
        g = builder.op(OpKind::Copy, {g}, s->name + ".grad");
      std::string wanted = s->name + ".grad";
      if (Value *other = program.find(wanted); other && other != g)
        module.rename(program, other, program.uniqueName(wanted + ".part"));
      if (g->name != wanted)
        module.rename(program, g, wanted);
      program.returns.push_back(g);
    }
  }

  Module &module;
  Program &program;
  Builder builder;
  llvm::SmallVector<Value *> leaves; // what gradients are returned for
  llvm::DenseSet<const Value *> active;
  llvm::DenseMap<const Value *, Value *> gradient;
};

} // namespace

Status autodiff(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (!p || p->returns.empty() || p->returns[0]->type.rank() != 0)
    return Status::error("autodiff: func @micro must return a 0-d loss first");
  p->returns.resize(1);
  return ReverseWalk(m, *p, c).run(p->returns[0]);
}

} // namespace ds
