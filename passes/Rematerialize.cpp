// SPDX-License-Identifier: Apache-2.0
//
// rematerialize: an elementwise op's value is made again in backward, if only elementwise ops read it there, and if backward has
// what it is made of in any case. Nothing needs to keep the value then, and fuse-pointwise makes its op a part of the kernel that
// reads it, which has one operand more or less and takes no longer. The same ops round in the same way: bits do not change.
//   forward:   %s = sigmoid %g : f32[4,5]; %a = mul %g, %s
//   backward:  %d = mul %dy, %a     ->     %s.re = sigmoid %g; %a.re = mul %g, %s.re; %d = mul %dy, %a.re
// Each group of ops that will be one kernel gets ops of its own. It comes before recompute, which weighs what is kept.
#include "ir/GraphBuilder.h"
#include "ir/PointwiseBody.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace ds {

namespace {

constexpr int kLongest = 4; // ops from a value to what is kept

// As fuse-pointwise takes them.
bool isStep(const Op &op) {
  auto fits = [](const Value *v) { return isPointwiseType(v->type.dtype); };
  return isPointwiseStep(op.kind) && op.bound.empty() && op.results.size() == 1 &&
         llvm::all_of(op.operands, fits) && fits(op.result());
}

bool isBackward(const Op &op) { return op.phase == Phase::Backward; }

class Rematerializer {
public:
  Rematerializer(Module &m, Program &p) : module(m), program(p) {
    for (Op &op : llvm::reverse(p.ops))
      if (isBackward(op) && isStep(op))
        rootOf[&op] = root(op);
  }

  void run() {
    llvm::SmallVector<Op *, 32> readers;
    for (Op &op : program.ops) {
      if (isBackward(op))
        readers.push_back(&op);
      else if (isStep(op))
        isMadeAgain(op.result());
    }
    for (Op *reader : readers)
      for (int i = 0; i < static_cast<int>(reader->operands.size()); ++i)
        if (Value *v = reader->operands[i]; decided.lookup(v))
          reader->setOperand(i, again(v, reader, rootOf.lookup(reader)));
  }

private:
  // The last op of the group that this one will be in.
  Op *root(Op &op) {
    Op *shared = nullptr;
    if (llvm::is_contained(program.returns, op.result()))
      return &op;
    for (Op *user : op.result()->users) {
      Op *r = rootOf.lookup(user);
      if (!r || (shared && r != shared) || user->result()->type.dims != op.result()->type.dims)
        return &op;
      shared = r;
    }
    return shared ? shared : &op;
  }

  bool isRead(const Value *v) const { // by backward, its views included
    return llvm::any_of(v->users, [&](const Op *user) {
      return isBackward(*user) || (user->info().isView() && isRead(user->result()));
    });
  }

  bool isMadeAgain(Value *v) {
    auto [it, isNew] = decided.try_emplace(v, false);
    if (isNew)
      decided[v] = decide(v);
    return decided[v];
  }
  bool decide(Value *v) {
    auto isFused = [&](Op *user) {
      return isBackward(*user) ? rootOf.count(user) && user->result()->type.dims == v->type.dims
                               : !user->info().isView() || !isRead(user->result());
    };
    return isRead(v) && !llvm::is_contained(program.returns, v) &&
           llvm::all_of(v->users, isFused) && canMake(v, 0);
  }
  // From what backward has.
  bool canMake(Value *v, int depth) {
    return llvm::all_of(v->def->operands, [&](Value *x) {
      const Value *storage = x;
      while (storage->def && storage->def->info().isView())
        storage = storage->def->operands[0];
      if (!storage->def) // a parameter, an input
        return true;
      if (isRead(storage) && !(isForwardStep(x) && isMadeAgain(x)))
        return true;
      return depth < kLongest && isForwardStep(x) && x->type.dims == v->type.dims &&
             canMake(x, depth + 1);
    });
  }
  static bool isForwardStep(const Value *v) {
    return v->def && !isBackward(*v->def) && isStep(*v->def);
  }

  // v for one group, from before its first reader on.
  Value *again(Value *v, Op *reader, Op *group) {
    Value *&made = clones[{v, group}];
    if (made)
      return made;
    llvm::SmallVector<Value *, 3> operands;
    for (Value *x : v->def->operands)
      operands.push_back(
          isForwardStep(x) && (isMadeAgain(x) || !isRead(x)) ? again(x, reader, group) : x);
    Builder b(module, program);
    b.before = reader;
    b.phase = Phase::Backward;
    b.origin = v->def->origin;
    b.origin.pass = "rematerialize";
    return made = b.op(v->def->kind, operands, v->name + ".re", v->def->attrs);
  }

  Module &module;
  Program &program;
  llvm::DenseMap<Op *, Op *> rootOf; // of backward's elementwise ops
  llvm::DenseMap<Value *, bool> decided;
  std::map<std::pair<Value *, Op *>, Value *> clones; // by value and group
};

} // namespace

Status rematerialize(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (p && c.fuse != "off")
    Rematerializer(m, *p).run();
  return {};
}

} // namespace ds
