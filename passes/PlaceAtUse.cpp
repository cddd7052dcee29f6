// SPDX-License-Identifier: Apache-2.0
#include "passes/PlaceAtUse.h"

#include "passes/Layers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ds {

namespace {

class AtUse {
public:
  AtUse(Module &m, Program &p, const char *pass, int64_t keep,
        llvm::function_ref<bool(const Symbol &)> applies,
        llvm::function_ref<Value *(Builder &, Symbol &)> bring)
      : module(m), program(p), pass(pass), keep(keep), applies(applies), bring(bring) {}

  void run() {
    // Keeping a tied bucket between its layers would hold it through all layers in between.
    for (Symbol *s : module.symbols())
      if (isMeant(s) && s->segments.size() == 1 && isTied(*s))
        tied.insert(s);
    collectViews();
    Symbol *lastTouched = nullptr;
    Phase phase = Phase::Forward;
    for (Op &op : program.ops) {
      if (op.phase != phase) {
        dropAllBut(op.phase == Phase::Backward ? keep : 0);
        phase = op.phase;
      }
      for (int i = 0; i < static_cast<int>(op.operands.size()); ++i) {
        Op *view = op.operands[i]->def;
        if (!view || !old.contains(view))
          continue;
        auto *bucket = static_cast<Symbol *>(view->operands[0]);
        if (lastTouched != bucket && tied.contains(bucket))
          open.erase(bucket);
        lastTouched = bucket;
        if (phase == Phase::Forward)
          touched(bucket);
        else if (!kept.erase(bucket) && !open.count(bucket))
          dropKept();
        op.setOperand(i, broughtView(open[bucket], *bucket, *view, op));
      }
    }
    for (Op *v : views)
      module.eraseOp(v);
  }

private:
  struct Run {
    Value *full = nullptr;
    llvm::DenseMap<int64_t, Value *> views; // by offset
  };

  // Buckets in the order of their last use.
  void touched(Symbol *bucket) {
    llvm::erase_value(order, bucket);
    order.push_back(bucket);
  }

  void dropAllBut(int64_t last) {
    auto n = static_cast<int64_t>(order.size());
    for (int64_t k = 0; k < n; ++k)
      if (k < n - last)
        open.erase(order[k]);
      else
        kept.insert(order[k]);
    order.clear();
  }

  // Backward brings another bucket: what it has not used by then would stay beside it.
  void dropKept() {
    for (Symbol *bucket : kept)
      open.erase(bucket);
    kept.clear();
  }

  bool isMeant(const Value *v) const {
    if (!v->isSymbol())
      return false;
    auto *s = static_cast<const Symbol *>(v);
    return s->symbolKind == SymbolKind::Bucket && applies(*s);
  }

  // The new views take the names.
  void collectViews() {
    for (Op &op : program.ops)
      if (op.kind == OpKind::View && isMeant(op.operands[0])) {
        module.rename(program, op.result(), program.uniqueName(op.result()->name + ".old"));
        views.push_back(&op);
        old.insert(&op);
      }
  }

  Value *broughtView(Run &run, Symbol &bucket, Op &oldView, Op &user) {
    Builder b(module, program);
    b.phase = user.phase;
    b.before = &user;
    b.origin = {user.origin.node, user.origin.module, pass};
    if (!run.full)
      run.full = bring(b, bucket);
    Value *&view = run.views[oldView.attrs.i("at")];
    if (!view)
      view = b.op(OpKind::View, {run.full}, segmentAt(bucket, oldView.attrs.i("at")) + ".full",
                  oldView.attrs);
    return view;
  }

  static const std::string &segmentAt(const Symbol &bucket, int64_t at) {
    for (const Segment &s : bucket.segments)
      if (s.at == at)
        return s.param;
    return bucket.name;
  }

  Module &module;
  Program &program;
  const char *pass;
  int64_t keep;
  llvm::function_ref<bool(const Symbol &)> applies;
  llvm::function_ref<Value *(Builder &, Symbol &)> bring;
  llvm::SmallPtrSet<Symbol *, 4> tied;
  llvm::SmallVector<Op *, 32> views;
  llvm::SmallPtrSet<Op *, 32> old;
  llvm::DenseMap<Symbol *, Run> open;
  llvm::SmallVector<Symbol *, 32> order; // of forward, by last use
  llvm::SmallPtrSet<Symbol *, 8> kept;   // for backward, which has not used them yet
};

} // namespace

void placeAtUse(Module &m, Program &p, const char *pass, int64_t keep,
                llvm::function_ref<bool(const Symbol &)> applies,
                llvm::function_ref<Value *(Builder &, Symbol &)> bring) {
  AtUse(m, p, pass, keep, applies, bring).run();
}

} // namespace ds
