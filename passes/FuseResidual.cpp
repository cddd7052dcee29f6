// SPDX-License-Identifier: Apache-2.0
//
// fuse-residual: the additions of residual streams in the ops beside them, which then go over memory once.
//   %s = add %a, %b; %y, %m, %r = layer_norm %s, @scale, @bias   ->   %s, %y, %m, %r = add_layer_norm %a, %b, @scale, @bias
//   %g, %ds, %db = layer_norm_grad ...; %s.grad = add %r.grad, %g   ->   %s.grad, %ds, %db = layer_norm_grad ..., %r.grad
// The same for rms_norm. Sums are rounded as before: the bits are those of the ops replaced, so it can stand behind everything that
// must not change them. Nothing waits earlier or lives longer: a normalisation is fused with its neighbour only, if the sum is read
// again later (else the result would lie where the sum did), and so is %a or %b (else both would lie beside the result).
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"

namespace ds {

namespace {

const Value *throughViews(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v;
}

// The next op that does something, if no view in between reads op's results.
Op *neighbour(Op &op) {
  auto end = op.parent->ops.end();
  for (auto it = std::next(op.getIterator()); it != end; ++it) {
    if (!it->info().isView())
      return it->phase == op.phase ? &*it : nullptr;
    if (llvm::any_of(it->operands, [&](Value *v) { return v->def == &op; }))
      return nullptr;
  }
  return nullptr;
}

class Fuser {
public:
  Fuser(Module &m, Program &p) : module(m), program(p) {}

  void run() {
    int n = 0;
    llvm::SmallVector<Op *, 64> first;
    for (Op &op : program.ops) {
      position[&op] = n++;
      for (const Value *v : op.operands)
        if (!op.info().isView())
          lastUse[throughViews(v)] = n - 1;
      if (isSum(op) || op.kind == OpKind::LayerNormGrad || op.kind == OpKind::RmsNormGrad)
        first.push_back(&op);
    }
    for (const Value *v : program.returns)
      lastUse[throughViews(v)] = n;
    for (Op *op : first)
      if (!op->parent)
        continue; // a gradient took it
      else if (!isSum(*op))
        intoGradient(*op);
      else if (Op *next = neighbour(*op))
        intoNorm(*op, *next);
  }

private:
  static bool isSum(const Op &op) {
    return op.kind == OpKind::Add && op.bound.empty() && isFloat(op.result()->type.dtype) &&
           op.operands[0]->type == op.operands[1]->type &&
           op.operands[0]->type == op.result()->type;
  }

  bool outlives(const Value *v, const Op &op) const {
    return lastUse.lookup(throughViews(v)) > position.lookup(&op);
  }
  // A temporary's bytes are free once nothing reads it.
  bool isFreed(const Value *v, const Op &by) const {
    return throughViews(v)->kind == ValueKind::Result && !outlives(v, by);
  }

  void intoNorm(Op &sum, Op &norm) {
    Value *s = sum.result();
    bool layer = norm.kind == OpKind::LayerNorm;
    bool both = isFreed(sum.operands[0], sum) && isFreed(sum.operands[1], sum);
    if ((!layer && norm.kind != OpKind::RmsNorm) || norm.operands[0] != s || !outlives(s, norm) ||
        both)
      return;
    llvm::SmallVector<Value *, 4> operands{sum.operands[0], sum.operands[1]};
    operands.append(norm.operands.begin() + 1, norm.operands.end());
    llvm::SmallVector<Value *, 4> old{s};
    old.append(norm.results.begin(), norm.results.end());
    replace(layer ? OpKind::AddLayerNorm : OpKind::AddRmsNorm, operands, old, norm, sum);
  }

  // The sum is made where the gradient was: the other one must be there by then, without waiting for another stream.
  void intoGradient(Op &grad) {
    Value *dx = grad.result();
    size_t full = grad.kind == OpKind::LayerNormGrad ? 5 : 4;
    Op *add = dx->users.size() == 1 ? dx->users.front() : nullptr;
    if (!add || !isSum(*add) || add->operands[0] == add->operands[1] || add->phase != grad.phase ||
        llvm::is_contained(program.returns, dx) || grad.operands.size() != full)
      return;
    Value *other = add->operands[add->operands[0] == dx];
    const Op *maker = throughViews(other)->def;
    bool isThere = !other->def || position.lookup(other->def) < position.lookup(&grad);
    if (!isThere || (maker && !maker->info().isLaunch()))
      return;
    llvm::SmallVector<Value *, 6> operands(grad.operands.begin(), grad.operands.end());
    operands.push_back(other);
    llvm::SmallVector<Value *, 4> old{add->result()};
    old.append(grad.results.begin() + 1, grad.results.end());
    replace(grad.kind, operands, old, grad, *add);
  }

  // One op with the results `old` of two, in the place of one.
  void replace(OpKind kind, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Value *> old,
               Op &place, Op &sum) {
    Builder b(module, program);
    b.before = &place;
    b.phase = place.phase;
    b.origin = place.origin;
    b.origin.pass = "fuse-residual";
    llvm::SmallVector<std::string, 4> names;
    for (Value *v : old) {
      names.push_back(v->name);
      module.rename(program, v, program.uniqueName(v->name + ".apart"));
    }
    Op *fused = b.create(kind, operands, names, place.attrs);
    position[fused] = position.lookup(&place);
    for (size_t i = 0; i < old.size(); ++i) {
      Value *now = fused->result(static_cast<int>(i));
      lastUse[now] = lastUse.lookup(old[i]);
      replaceAllUses(old[i], now, &program);
    }
    module.eraseOp(&sum);
    module.eraseOp(&place);
  }

  Module &module;
  Program &program;
  llvm::DenseMap<const Op *, int> position;
  llvm::DenseMap<const Value *, int> lastUse; // by what is no view
};

} // namespace

Status fuseResidual(Module &m, const PlanConfig &c) {
  if (c.fuse == "off")
    return {};
  for (Program *p : m.programs())
    Fuser(m, *p).run();
  return {};
}

} // namespace ds
