// SPDX-License-Identifier: Apache-2.0
//
// Where buckets lie changes what moves and what touches them, not the rest of a micro-batch, so only one whole plan is needed.
// For the others most launches are taken out, and what they made is a constant in their place:
//   %y = matmul %x, %w; %z = relu %y; %dw = matmul %x, %dz {trans_a}; %b.grad = pack %dw
//   ->  %y = matmul @x', %w; %dw = matmul @x', @dz' {trans_a}; %b.grad = pack %dw
// What stays: all that passes added, launches that read buckets or what is brought of them, and those that write gradients.
#include "passes/Market.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ds {

namespace {

const Value *rootOf(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v;
}

class Reducer {
public:
  Reducer(Module &m, const RecomputeModel &model) : module(m) {
    for (const RecomputeModel::Launch &l : model.launches)
      launches.insert(l.op->result()->name);
  }

  void run(Program &p) {
    kept.clear();
    for (Op &op : p.ops)
      if (!op.info().isView() && (!isLaunch(op) || llvm::any_of(op.operands, [&](const Value *v) {
            return isOfBucket(rootOf(v));
          }))) {
        kept.insert(&op);
        if (op.kind == OpKind::Pack)
          keepUnder(op);
      }
    for (const Value *v : p.returns)
      if (v->def)
        kept.insert(v->def);
    llvm::SmallVector<Op *, 0> ops;
    for (Op &op : llvm::reverse(p.ops))
      ops.push_back(&op);
    for (Op *op : ops)
      if (!stays(*op))
        takeOut(p, *op);
  }

private:
  bool isLaunch(const Op &op) const {
    return op.numNamed() > 0 && launches.contains(op.result()->name);
  }
  bool isOfBucket(const Value *root) const {
    return root->isSymbol() || (root->def && !isLaunch(*root->def));
  }

  // What op packs, and what may be computed in the same bytes before (assign-aliases).
  void keepUnder(Op &op) {
    for (auto it : llvm::enumerate(op.operands)) {
      Op *maker = rootOf(it.value())->def;
      bool isUnder = op.kind == OpKind::Pack || mayOverwrite(op.kind, static_cast<int>(it.index()));
      if (maker && isUnder && isLaunch(*maker) && kept.insert(maker).second)
        keepUnder(*maker);
    }
  }

  // Users of a view that are left are kept.
  bool stays(const Op &op) const {
    if (kept.contains(&op) || !op.info().isView())
      return kept.contains(&op);
    const Value *root = rootOf(op.result());
    return !op.result()->users.empty() &&
           (root->isSymbol() || (root->def && kept.contains(root->def)));
  }

  void takeOut(Program &p, Op &op) {
    for (Value *v : op.results)
      if (!v->users.empty())
        replaceAllUses(v, standIn(v->type), &p);
    module.eraseOp(&op);
  }

  Symbol *standIn(const Type &t) {
    Symbol *&s = standIns[t.str()];
    if (!s)
      s = module.addSymbol(SymbolKind::Const, kStandIn + std::to_string(standIns.size()), t);
    return s;
  }

  Module &module;
  llvm::StringSet<> launches; // of the micro-batch as the model has it
  llvm::DenseSet<const Op *> kept;
  llvm::StringMap<Symbol *> standIns; // by type
};

} // namespace

void reduceToBuckets(Module &m, const RecomputeModel &model) {
  Reducer reducer(m, model);
  llvm::SmallVector<Program *, 4> programs(m.programs().begin(), m.programs().end());
  for (Program *p : programs)
    if (p->name.starts_with("micro."))
      reducer.run(*p);
    else if (p->name == "eval")
      m.eraseProgram(p); // no part of an update
}

} // namespace ds
