// SPDX-License-Identifier: Apache-2.0
//
// offload: states, gradients and parameters leave the device's memory (zero_optimization.offload_optimizer and
// offload_param). A space is a property of a symbol; this pass sets it and inserts the transfers that follow.
//   accumulate %b.grad -> @b.acc   ->   %b.grad.host = offload %b.grad; accumulate %b.grad.host -> @b.acc
//   use (view @b at 0)             ->   %b.full = fetch @b; use (view %b.full at 0)
//   all_gather @b                  ->   %b.part = fetch @b; all_gather %b.part
// The norm's squares are summed on the host bucket by bucket, as soon as a gradient is complete, beside backward.
// Saved activations wait there for backward where dsplan.offload_activations matches (OffloadActivations.cpp).
// What the host updates has its gradient there, too. Small parameters, which stay gathered, never leave.
#include "passes/Offload.h"

#include "passes/PlaceAtUse.h"
#include "passes/Precision.h"

namespace ds {

namespace {

Space spaceOf(const std::string &device) {
  return device == "cpu" ? Space::Host : device == "nvme" ? Space::Nvme : Space::Device;
}

class Offloader {
public:
  Offloader(Module &m, const PlanConfig &c) : module(m), config(c) {}

  Status run() {
    collect();
    chooseUpdates();
    placeSymbols();
    for (Program *p : module.programs()) {
      if (p->name == "update")
        continue;
      bringWeights(*p);
      offloadActivations(module, *p, config.offloadActivations, config.offloadValues);
      gradientsToHost(*p);
      TRY(reinferTypes(module, *p));
    }
    plan.buffers = config.offloadBuffers;
    return offloadUpdate(module, plan);
  }

private:
  void collect() {
    for (Op &op : module.program("update")->ops)
      if (op.info().trait == Trait::Optimizer)
        optimizers.push_back(&op);
  }

  BucketPlace placeOf(const Symbol &bucket) const {
    auto it = config.bucketPlaces.find(bucket.name);
    return it == config.bucketPlaces.end()
               ? BucketPlace{config.offloadOptimizer, config.offloadParam}
               : it->second;
  }

  // A part of the optimizer's work may stay: what the planner chose or, by ratio, the buckets whose gradients are complete
  // last, since nothing is left that the host's work on them could hide behind.
  void chooseUpdates() {
    int64_t total = 0, taken = 0;
    for (Op *op : optimizers)
      total += optimizedBucket(*op)->type.elems();
    for (Op *op : llvm::reverse(optimizers)) {
      Symbol *bucket = optimizedBucket(*op);
      bool within = static_cast<double>(taken) < config.offloadRatio * static_cast<double>(total);
      taken += bucket->type.elems();
      if (!placeOf(*bucket).optimizer.empty() &&
          (within || config.bucketPlaces.contains(bucket->name)))
        plan.moved.insert(bucket);
    }
  }

  void placeSymbols() {
    for (Symbol *s : module.symbols())
      if (s->symbolKind == SymbolKind::Bucket && !s->resident && !s->running)
        s->type.space = spaceOf(placeOf(*s).param);
    for (Op *op : optimizers) {
      Symbol *bucket = optimizedBucket(*op);
      if (!plan.moved.contains(bucket))
        continue;
      for (int i = 1; i <= op->info().outs; ++i)
        if (auto *s = static_cast<Symbol *>(op->operands[i]);
            s->isSymbol() && s->symbolKind == SymbolKind::State)
          s->type.space = spaceOf(placeOf(*bucket).optimizer);
      op->operands[0]->type.space = Space::Host; // the accumulator
      gradients.insert(op->operands[0]);
    }
  }

  void bringWeights(Program &p) {
    auto isAway = [](const Symbol &s) { return s.type.space != Space::Device; };
    auto staged = [](Builder &b, Symbol &bucket) -> Value * {
      return bucket.type.space == Space::Nvme
                 ? b.op(OpKind::Read, {&bucket}, bucket.name + ".staged")
                 : &bucket;
    };
    llvm::SmallVector<Op *, 32> gathers;
    for (Op &op : p.ops)
      if (op.kind == OpKind::AllGather && op.operands[0]->isSymbol() &&
          isAway(*static_cast<Symbol *>(op.operands[0])))
        gathers.push_back(&op);
    for (Op *gather : gathers) {
      auto *bucket = static_cast<Symbol *>(gather->operands[0]);
      Builder b(module, p);
      b.phase = gather->phase;
      b.before = gather;
      b.origin = {gather->origin.node, gather->origin.module, kOffloadPass};
      gather->setOperand(0, b.op(OpKind::Fetch, {staged(b, *bucket)}, bucket->name + ".part"));
    }
    placeAtUse(
        module, p, kOffloadPass, config.keepGathered,
        [&](const Symbol &s) { return isAway(s) && !s.type.isShard(); },
        [&](Builder &b, Symbol &bucket) {
          return b.op(OpKind::Fetch, {staged(b, bucket)}, bucket.name + ".full");
        });
  }

  // What is added to, or stored into, an accumulator on the host goes there first.
  void gradientsToHost(Program &p) {
    llvm::SmallVector<Op *, 32> ops;
    for (Op &op : p.ops)
      if (!op.bound.empty() && gradients.count(op.bound[0]))
        ops.push_back(&op);
    bool completes = p.name == "micro.only" || p.name == "micro.last";
    Value *squares = nullptr;
    for (Op *op : ops) {
      Builder b(module, p);
      b.phase = op->phase;
      b.before = op;
      b.origin = {op->origin.node, op->origin.module, kOffloadPass};
      auto next = std::next(op->getIterator());
      Symbol &acc = *op->bound[0];
      Value *whole = op->kind == OpKind::Accumulate ? add(b, *op) : store(b, *op);
      b.before = next == p.ops.end() ? nullptr : &*next;
      if (completes)
        squares = addSquares(b, whole, squares, acc.name + ".squares");
    }
    if (!squares)
      return;
    Builder b(module, p);
    b.phase = Phase::Backward;
    b.origin.pass = kOffloadPass;
    plan.squares = module.addSymbol(SymbolKind::Accum, module.uniqueSymbolName("grad_bins.acc"),
                                    squares->type);
    b.create(OpKind::Accumulate, {squares}, {}, {{"first", true}}, {plan.squares});
  }

  /// Returns what the accumulator holds then.
  Value *add(Builder &b, Op &op) {
    Symbol &acc = *op.bound[0];
    Value *v = op.operands.back(), *host = b.op(OpKind::Offload, {v}, v->name + ".host");
    if (op.operands.size() == 2) {
      Value *sum = b.op(OpKind::Accumulate, {op.operands[0], host}, acc.name + ".new");
      module.eraseOp(&op);
      return sum;
    }
    if (host->type.dtype != acc.type.dtype)
      host = b.op(OpKind::Cast, {host}, acc.name + ".new",
                  {{"to", std::string(text(acc.type.dtype))}});
    op.setOperand(0, host);
    return host;
  }

  /// A reduction at the window's boundary.
  Value *store(Builder &b, Op &op) {
    Symbol &acc = *op.bound[0];
    Op *sum = b.create(op.kind, op.operands, {acc.name + ".new"}, op.attrs);
    Value *host = b.op(OpKind::Offload, {sum->result()}, acc.name + ".host");
    b.create(OpKind::Accumulate, {host}, {}, {{"first", true}}, {&acc});
    module.eraseOp(&op);
    return host;
  }

  Value *addSquares(Builder &b, Value *gradient, Value *sum, const std::string &name) {
    Value *squares = b.op(OpKind::SumSquares, {gradient}, name);
    return sum ? b.op(OpKind::Add, {sum, squares}, "grad_bins.sum") : squares;
  }

  Module &module;
  const PlanConfig &config;
  OffloadPlan plan;
  llvm::SmallVector<Op *, 32> optimizers;         // in the order of their buckets
  llvm::SmallPtrSet<const Value *, 32> gradients; // accumulators on the host
};

} // namespace

Status offloadSymbols(Module &m, const PlanConfig &c) {
  // The config says so for its own stage; the summary plans the other stages as well.
  PlanConfig mine = c;
  if (c.world > 1 && c.stage == 0)
    mine.offloadOptimizer.clear();
  if (c.world > 1 && c.stage < 3)
    mine.offloadParam.clear();
  for (auto &[name, place] : mine.bucketPlaces) {
    if (c.world > 1 && c.stage == 0)
      place.optimizer.clear();
    if (c.world > 1 && c.stage < 3)
      place.param.clear();
  }
  if (mine.offloadOptimizer.empty() && mine.offloadParam.empty() &&
      mine.offloadActivations.empty() && mine.bucketPlaces.empty() && mine.offloadValues.empty())
    return {};
  return Offloader(m, mine).run();
}

} // namespace ds
