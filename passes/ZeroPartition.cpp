// SPDX-License-Identifier: Apache-2.0
//
// zero-partition: sets placements for the ZeRO stage and inserts collectives at their use (D5).
//   stage 0  all replicated; gradients by reduce_scatter and, in @update, all_gather
//   stage 1  states sharded; @update works on this rank's slice and gathers the updated parameters
//   stage 2  the same, with gradients reduced in every micro-batch
//   stage 3  parameters sharded too: all_gather before their first use in each phase, unless resident
// Running statistics are the first rank's on all ranks, at every stage.
// With one rank there is no mesh, every value is local, and nothing is inserted.
// Where gradients are reduced only at the window's boundary, @b.acc is a full `partial` accumulator and
// @b.red takes the reduced shard; form-programs drops the reduction from all but the last micro-batch.
#include "passes/Passes.h"
#include "passes/PlaceAtUse.h"
#include "passes/Precision.h"

#include "ir/GraphBuilder.h"
#include "llvm/ADT/DenseMap.h"

namespace ds {

namespace {

class Partitioner {
public:
  Partitioner(Module &m, const PlanConfig &c)
      : module(m), config(c), micro(*m.program("micro")), update(*m.program("update")) {}

  Status run() {
    module.mesh = {{axis, config.world}};
    boundary = reducesAtBoundary(config);
    placeSymbols();
    if (config.stage == 3)
      placeAtUse(module, micro, "zero-partition", config.keepGathered, isSharded,
                 [&](Builder &b, Symbol &bucket) {
                   return b.op(OpKind::AllGather, {&bucket}, bucket.name + ".full", over());
                 });
    placeInputs();
    shareStatistics();
    reduceGradients();
    TRY(reinferTypes(module, micro));
    rewriteUpdate();
    return reinferTypes(module, update);
  }

private:
  void placeSymbols() {
    for (Symbol *s : module.symbols()) {
      Type &t = s->type;
      switch (s->symbolKind) {
      case SymbolKind::Bucket:
        t = config.stage == 3 && !s->resident ? t.withPlacement(Placement::Shard, axis)
                                              : t.withPlacement(Placement::Repl);
        break;
      case SymbolKind::State:
        t = config.stage >= 1 ? t.withPlacement(Placement::Shard, axis)
                              : t.withPlacement(Placement::Repl);
        break;
      case SymbolKind::Accum: // the loss too is a contribution until @update sums it
        t = t.rank() == 0 || boundary ? t.withPlacement(Placement::Partial, axis)
                                      : t.withPlacement(Placement::Shard, axis);
        break;
      case SymbolKind::Param:
      case SymbolKind::Scalar:
      case SymbolKind::Const:
        t = t.withPlacement(Placement::Repl);
        break;
      }
    }
  }

  void placeInputs() {
    for (Value *in : micro.inputs)
      if (in->input.role == InputMeta::Role::Count)
        in->type = in->type.withPlacement(Placement::Partial, axis);
  }

  static bool isSharded(const Symbol &s) { return s.type.isShard(); }

  Attrs over() const { return {{"over", std::string(axis)}}; }

  void reduceGradients() {
    llvm::DenseMap<Value *, std::string> bucketOf; // by accumulator
    for (Op &op : update.ops)
      if (op.info().trait == Trait::Optimizer)
        bucketOf[op.operands[0]] = optimizedBucket(op)->name;
    llvm::SmallVector<Op *, 32> accumulates;
    for (Op &op : micro.ops)
      if (op.kind == OpKind::Accumulate && op.bound[0]->type.rank() == 1)
        accumulates.push_back(&op);
    for (Op *op : accumulates) {
      Symbol *acc = op->bound[0];
      const std::string &bucket = bucketOf[acc];
      Builder b(module, micro);
      b.phase = Phase::Backward;
      b.before = op;
      b.origin = {op->origin.node, op->origin.module, "zero-partition"};
      Type &grad = op->operands[1]->type; // of a pack: this rank's contribution
      grad = grad.withPlacement(Placement::Partial, axis);
      reduced[acc] = acc;
      if (!boundary) {
        op->setOperand(
            1, b.op(OpKind::ReduceScatter, {op->operands[1]}, bucket + ".grad.shard", over()));
        continue;
      }
      // The sum is needed at once, so it has a name; it lies in the accumulator's storage.
      Op *sum = b.create(OpKind::Accumulate, {acc, op->operands[1]}, {bucket + ".sum"});
      Symbol *red = module.addSymbol(SymbolKind::Accum, module.uniqueSymbolName(bucket + ".red"),
                                     acc->type.withPlacement(Placement::Shard, axis));
      b.create(OpKind::ReduceScatter, {sum->result()}, {}, over(), {red});
      reduced[acc] = red;
      module.eraseOp(op);
    }
  }

  // copy %running.new -> @running   ->   all_reduce %running.new -> @running, where only the first rank's contribution
  // is not zero: all ranks keep its statistics.
  void shareStatistics() {
    llvm::SmallVector<Op *, 2> copies;
    for (Op &op : micro.ops)
      if (op.kind == OpKind::Copy && !op.bound.empty() && op.bound[0]->running)
        copies.push_back(&op);
    for (Op *copy : copies) {
      Op *pack = copy->operands[0]->def;
      for (int i = 0; i < static_cast<int>(pack->operands.size()); ++i) {
        Op *track = pack->operands[i]->def;
        Builder b(module, micro);
        b.phase = track->phase;
        b.before = track;
        b.origin = track->origin;
        Attrs attrs = track->attrs;
        attrs.set("first_rank", true);
        std::string name = track->result()->name;
        module.rename(micro, track->result(), micro.uniqueName(name + ".own"));
        pack->setOperand(i, b.op(OpKind::Track, track->operands, name, attrs));
        if (track->result()->users.empty() && !llvm::is_contained(micro.returns, track->result()))
          module.eraseOp(track);
      }
      pack->result()->type = pack->result()->type.withPlacement(Placement::Partial, axis);
      Builder b(module, micro);
      b.phase = copy->phase;
      b.before = copy;
      b.origin = {copy->origin.node, copy->origin.module, "zero-partition"};
      b.create(OpKind::AllReduce, {pack->result()}, {}, over(), copy->bound);
      module.eraseOp(copy);
    }
  }

  void rewriteUpdate() {
    Builder b(module, update);
    b.phase = Phase::Update;
    b.origin.pass = "zero-partition";
    llvm::SmallVector<Op *, 32> ops;
    for (Op &op : update.ops)
      ops.push_back(&op);
    for (Op *op : ops) {
      b.before = op;
      if (op->kind == OpKind::Copy) {
        Value *loss = op->operands[0]; // @loss.acc: the ranks' contributions
        sumOverRanks(b, *op, loss);
      } else if (op->kind == OpKind::SumSquares) {
        for (int i = 0; i < static_cast<int>(op->operands.size()); ++i)
          op->setOperand(i, reduced[op->operands[i]]);
        auto next = std::next(op->getIterator());
        b.before = &*next;
        std::string name = op->result()->name;
        module.rename(update, op->result(), update.uniqueName(name + ".local"));
        op->result()->type = op->result()->type.withPlacement(Placement::Partial, axis);
        Value *all = b.op(OpKind::AllReduce, {op->result()}, name, over());
        replaceUsesExcept(op->result(), all, all->def);
        for (Value *v : all->users.front()->results) // norm, factor and skip
          v->type = v->type.withPlacement(Placement::Repl);
      } else if (op->info().trait == Trait::Optimizer) {
        optimizer(b, *op);
      }
    }
  }

  static void replaceUsesExcept(Value *from, Value *to, Op *except) {
    llvm::SmallVector<Op *, 8> users(from->users.begin(), from->users.end());
    for (Op *u : users)
      for (int i = 0; u != except && i < static_cast<int>(u->operands.size()); ++i)
        if (u->operands[i] == from)
          u->setOperand(i, to);
  }

  void sumOverRanks(Builder &b, Op &copy, Value *contribution) {
    std::string name = copy.result()->name;
    module.rename(update, copy.result(), update.uniqueName(name + ".old"));
    Value *sum = b.op(OpKind::AllReduce, {contribution}, name, over());
    replaceAllUses(copy.result(), sum, &update);
    module.eraseOp(&copy);
  }

  void optimizer(Builder &b, Op &op) {
    Symbol &bucket = *optimizedBucket(op);
    Symbol *grad = reduced[op.operands[0]];
    op.setOperand(0, grad);
    if (bucket.type.isShard())
      return;
    if (config.stage == 0) {
      op.setOperand(0, b.op(OpKind::AllGather, {grad}, bucket.name + ".grad", over()));
      return;
    }
    if (&bucket != op.operands[1])
      return gatherRounded(b, op, bucket);
    Value *own = b.op(OpKind::Own, {&bucket}, bucket.name + ".own", over());
    llvm::SmallVector<Value *, 10> operands(op.operands.begin(), op.operands.end());
    operands[1] = own;
    Op *updated = b.create(op.kind, operands, {bucket.name + ".new"}, op.attrs,
                           llvm::ArrayRef<Symbol *>(op.bound).drop_front());
    b.create(OpKind::AllGather, {updated->result()}, {}, over(), {&bucket});
    module.eraseOp(&op);
  }

  // The master is a shard, and so is what is rounded from it.
  void gatherRounded(Builder &b, Op &op, Symbol &bucket) {
    Op *round = op.result()->users.front();
    b.before = &*std::next(round->getIterator());
    op.result()->type = op.result()->type.withPlacement(Placement::Shard, axis);
    Value *own = b.op(OpKind::Cast, {op.result()}, bucket.name + ".new", round->attrs);
    b.create(OpKind::AllGather, {own}, {}, over(), {&bucket});
    module.eraseOp(round);
  }

  static constexpr const char *axis = "dp";
  Module &module;
  const PlanConfig &config;
  Program &micro, &update;
  llvm::DenseMap<Value *, Symbol *>
      reduced; // accumulator -> the symbol of its sum over ranks, a shard
  bool boundary = false;
};

} // namespace

bool reducesAtBoundary(const PlanConfig &c) {
  if (c.gradAccum <= 1 || c.world <= 1)
    return false;
  return c.reduce == "boundary" || (c.reduce.empty() && c.stage <= 1);
}

Status zeroPartition(Module &m, const PlanConfig &c) {
  if (c.world <= 1)
    return {};
  return Partitioner(m, c).run();
}

} // namespace ds
