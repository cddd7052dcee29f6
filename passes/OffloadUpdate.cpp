// SPDX-License-Identifier: Apache-2.0
//
// The update of a bucket whose states lie in host memory or on nvme. The gradient goes there as backward produces it,
// the optimizer runs on the host's processors, and only the new weights come back:
//   adam @b.acc, @b, @b.m, @b.v, @lr, .. -> @b, @b.m, @b.v
//     ->   %b.master.new = adam @b.acc, @b.master, @b.m, @b.v, %lr.host, .. -> @b.m, @b.v     (all in host memory)
//          fetch %b.master.new -> @b
// Weights on the device need the host's copy @b.master, which 16-bit weights have anyway. On nvme, states are read before
// and written behind the optimizer.
#include "passes/Offload.h"

#include "passes/Precision.h"

namespace ds {

namespace {

/// The ops of one bucket's update, by when they are due.
struct Staged {
  llvm::SmallVector<Op *, 4> before, at, behind;
};

class HostUpdate {
public:
  HostUpdate(Module &m, const OffloadPlan &plan)
      : module(m), plan(plan), update(*m.program("update")), b(m, update) {
    b.phase = Phase::Update;
    b.origin.pass = kOffloadPass;
  }

  Status run() {
    llvm::SmallVector<Op *, 32> optimizers;
    for (Op &op : update.ops)
      if (op.info().trait == Trait::Optimizer)
        optimizers.push_back(&op);
    for (Op *op : optimizers)
      if (Symbol *bucket = optimizedBucket(*op); plan.moved.count(bucket))
        move(*op, *bucket);
      else if (bucket->type.space != Space::Device)
        bringWeights(*op, *bucket);
    splitSumOfSquares();
    TRY(reinferTypes(module, update));
    arrange();
    return {};
  }

private:
  // The value on the host. A transfer of its own, behind where it is made, or at the program's start.
  Value *onHost(Value *v) {
    Value *&copy = hostCopies[v];
    if (copy)
      return copy;
    Builder at(module, update);
    at.phase = Phase::Update;
    at.origin.pass = kOffloadPass;
    if (v->def) {
      auto next = std::next(v->def->getIterator());
      at.before = next == update.ops.end() ? nullptr : &*next;
    } else {
      at.before = &update.ops.front();
    }
    return copy = at.op(OpKind::Offload, {v}, v->name + ".host");
  }

  // What lies on nvme passes through host memory.
  Value *staged(Value *v, Staged &s) {
    if (v->type.space != Space::Nvme)
      return v;
    Value *in = b.op(OpKind::Read, {v}, v->name + ".in");
    s.before.push_back(in->def);
    return in;
  }

  void move(Op &op, Symbol &bucket) {
    Staged &s = stages.emplace_back();
    b.before = &op;
    int outs = op.info().outs;
    bool isMaster = bucket.type.space == Space::Device; // else the weights themselves are there
    Symbol *weights = masterOf(op);
    bool hasMaster = weights && weights != &bucket;
    if (isMaster && !hasMaster)
      weights = addMaster(bucket, op);
    llvm::SmallVector<Value *, 10> operands;
    llvm::SmallVector<Symbol *, 3> homes; // of the results
    for (int i = 0; i < static_cast<int>(op.operands.size()); ++i) {
      Value *v = op.operands[i];
      if (i >= 1 && i <= outs) {
        auto *home = i == 1 ? weights : static_cast<Symbol *>(v);
        homes.push_back(home);
        operands.push_back(staged(home, s));
      } else {
        operands.push_back(i == 0 ? v : onHost(v));
      }
    }
    // Results that stay where they are made are bound; the others have names, and these come first.
    llvm::SmallVector<std::string, 3> names;
    llvm::SmallVector<Symbol *, 3> bound;
    bool named = isMaster || hasMaster; // the new weights go on from there
    bool allNamed = llvm::any_of(homes, [](Symbol *h) { return h->type.space == Space::Nvme; });
    for (int r = 0; r < outs; ++r)
      if (allNamed || (r == 0 && named))
        names.push_back(homes[r]->name + ".new");
      else
        bound.push_back(homes[r]);
    Op *made = b.create(op.kind, operands, names, op.attrs, bound);
    s.at.push_back(made);
    for (int r = 0; r < static_cast<int>(names.size()); ++r)
      if (homes[r]->type.space == Space::Nvme)
        s.behind.push_back(b.create(OpKind::Write, {made->result(r)}, {}, {}, {homes[r]}));
    bringBack(op, *made, bucket, s);
    Op *own = op.operands[1]->def; // the device's slice is not read any more
    module.eraseOp(&op);
    if (own && own->result()->users.empty())
      module.eraseOp(own);
  }

  /// The f32 copy on the host that weights on the device are fetched from.
  Symbol *addMaster(Symbol &bucket, Op &op) {
    Symbol *m =
        module.addSymbol(SymbolKind::State, module.uniqueSymbolName(bucket.name + ".master"),
                         op.operands[2]->type); // as the first moment
    return m;
  }

  /// The new weights go where they belong: rounded on the host if they have 16 bits, then fetched and gathered.
  void bringBack(Op &op, Op &made, Symbol &bucket, Staged &s) {
    Value *updated = op.numNamed() ? op.result() : nullptr;
    if (!updated || updated->users.empty()) { // bound to the bucket
      if (made.numNamed() && bucket.type.space == Space::Device)
        s.behind.push_back(b.create(OpKind::Fetch, {made.result()}, {}, {}, {&bucket}));
      return;
    }
    Op *next = updated->users.front();
    Value *v = made.result();
    Space home = bucket.type.space;
    if (next->kind == OpKind::Cast) {
      bool last = !next->bound.empty();
      if (last && home == Space::Host) {
        next->setOperand(0, v);
        s.at.push_back(next);
        return;
      }
      b.before = next;
      Value *rounded = b.op(OpKind::Cast, {v}, bucket.name + ".rounded", next->attrs);
      s.at.push_back(rounded->def);
      OpKind up = home == Space::Nvme ? OpKind::Write : OpKind::Fetch;
      if (last) {
        s.behind.push_back(b.create(up, {rounded}, {}, {}, {&bucket}));
        module.eraseOp(next);
        return;
      }
      Op *gather = next->result()->users.front();
      Value *back = b.op(OpKind::Fetch, {rounded}, bucket.name + ".back");
      gather->setOperand(0, back);
      s.behind.append({back->def, gather});
      module.eraseOp(next);
      return;
    }
    b.before = next; // the gather of what each rank has updated
    Value *back = b.op(OpKind::Fetch, {v}, bucket.name + ".back");
    next->setOperand(0, back);
    s.behind.append({back->def, next});
  }

  // The optimizer stays on the device, its weights do not:   adam .., @b, .. -> @b, ..   ->
  //   %b.in = fetch @b; %b.new = adam .., %b.in, .. -> ..; offload %b.new -> @b
  void bringWeights(Op &op, Symbol &bucket) {
    b.before = &op;
    auto down = [&](Value *v) {
      if (bucket.type.space == Space::Host)
        return b.create(OpKind::Offload, {v}, {}, {}, {&bucket});
      Value *host = b.op(OpKind::Offload, {v}, bucket.name + ".out");
      return b.create(OpKind::Write, {host}, {}, {}, {&bucket});
    };
    if (op.operands[1] != &bucket) { // of 16 bits: only the rounding goes there
      Op *round = op.result()->users.front();
      b.before = round;
      down(b.op(OpKind::Cast, {op.result()}, bucket.name + ".new", round->attrs));
      module.eraseOp(round);
      return;
    }
    Value *in = bucket.type.space == Space::Nvme
                    ? b.op(OpKind::Read, {&bucket}, bucket.name + ".staged")
                    : static_cast<Value *>(&bucket);
    llvm::SmallVector<Value *, 10> operands(op.operands.begin(), op.operands.end());
    operands[1] = b.op(OpKind::Fetch, {in}, bucket.name + ".in");
    Op *made = b.create(op.kind, operands, {bucket.name + ".new"}, op.attrs,
                        llvm::ArrayRef<Symbol *>(op.bound).drop_front());
    down(made->result());
    module.eraseOp(&op);
  }

  // Squares are summed where the gradients lie, on the host in the last micro-batch already; the bins are whole numbers, so
  // that their sum is exact.
  void splitSumOfSquares() {
    llvm::SmallVector<Op *, 1> sums;
    for (Op &op : update.ops)
      if (op.kind == OpKind::SumSquares)
        sums.push_back(&op);
    for (Op *op : sums) {
      llvm::SmallVector<Value *, 16> here;
      for (Value *v : op->operands)
        if (v->type.space == Space::Device)
          here.push_back(v);
      if (here.size() == op->operands.size())
        continue;
      b.before = op;
      std::string name = op->result()->name;
      module.rename(update, op->result(), update.uniqueName(name + ".old"));
      Value *sum = b.op(OpKind::Fetch, {plan.squares}, here.empty() ? name : name + ".fetched");
      if (here.empty()) {
        replaceAllUses(op->result(), sum, &update);
        module.eraseOp(op);
        continue;
      }
      Value *own = b.op(OpKind::SumSquares, here, name + ".device");
      Op *reduce = sum->type.isPartial() ? op->result()->users.front() : nullptr;
      if (reduce) { // each part by itself: only whole values are added
        name = reduce->result()->name;
        module.rename(update, reduce->result(), update.uniqueName(name + ".old"));
        b.before = reduce;
        own = b.op(OpKind::AllReduce, {own}, name + ".device", reduce->attrs);
        sum = b.op(OpKind::AllReduce, {sum}, name + ".host", reduce->attrs);
      }
      Value *whole = b.op(OpKind::Add, {own, sum}, name);
      replaceAllUses(reduce ? reduce->result() : op->result(), whole, &update);
      if (reduce)
        module.eraseOp(reduce);
      module.eraseOp(op);
    }
  }

  void arrange() {
    if (stages.empty())
      return;
    // Small buckets that every rank keeps come first: behind a gather of these at the end, all gathers of the next forward
    // would wait.
    std::stable_partition(stages.begin(), stages.end(), [](const Staged &s) {
      return !s.behind.empty() && s.behind.back()->kind == OpKind::AllGather;
    });
    auto n = static_cast<int64_t>(stages.size());
    bool reads = llvm::any_of(stages, [](const Staged &s) { return !s.before.empty(); });
    Op *first = nullptr; // the first op that is behind all of them
    llvm::SmallPtrSet<Op *, 32> all;
    for (Staged &s : stages)
      for (auto *list : {&s.before, &s.at, &s.behind})
        all.insert(list->begin(), list->end());
    for (Op &op : update.ops)
      if (all.contains(&op))
        first = nullptr;
      else if (!first)
        first = &op;
    auto place = [&](llvm::ArrayRef<Op *> ops) {
      for (Op *op : ops) {
        update.ops.remove(*op);
        if (first)
          update.insertBefore(first, op);
        else
          update.append(op);
      }
    };
    inUpdateOrder(
        n, plan.buffers, reads, [&](int64_t k) { place(stages[k].before); },
        [&](int64_t k) { place(stages[k].at); }, [&](int64_t k) { place(stages[k].behind); });
  }

  Module &module;
  const OffloadPlan &plan;
  Program &update;
  Builder b;
  std::vector<Staged> stages; // by bucket
  llvm::DenseMap<Value *, Value *> hostCopies;
};

} // namespace

Status offloadUpdate(Module &m, const OffloadPlan &plan) { return HostUpdate(m, plan).run(); }

} // namespace ds
