// SPDX-License-Identifier: Apache-2.0
//
// form-programs: specialises @micro for its place in the accumulation window (D6).
//   func @micro   ->   program @micro.only, or @micro.first, @micro.mid (from 3 micro-batches on), @micro.last
// The first program of a window stores into accumulators instead of adding, reduces the window's label count
// and sets @inv_count. Where gradients are reduced at the boundary, only the last one reduces. With dsplan.eval,
// `program @eval` is the forward phase alone: the loss of one micro-batch over all ranks, and its count of labels.
#include "ir/GraphBatchNorm.h"
#include "passes/Passes.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace ds {

namespace {

class Specialiser {
public:
  Specialiser(Module &m, Program &p, bool first, bool last, bool persistInv)
      : module(m), program(p), isFirst(first), isLast(last), persistInv(persistInv) {}

  void run() {
    if (!isLast)
      dropBoundaryReductions();
    if (isFirst) {
      storeAccumulators();
      setInverseCount(persistInv);
    } else {
      dropCount();
    }
  }

  void evaluate() {
    Value *loss = nullptr;
    for (Op &op : program.ops)
      if (op.kind == OpKind::Accumulate && !op.bound.empty() && op.bound[0]->type.rank() == 0)
        loss = op.operands[1];
    useRunningStatistics();
    program.returns.assign({withoutGradients(loss)});
    removeDropout(module, program); // evaluation sees every element
    dropUnneeded();
    for (Op &op : program.ops)
      op.phase = Phase::Forward;
    loss = program.returns[0];
    Value *count = countInput();
    setInverseCount(/*keep=*/false);
    Builder b(module, program);
    b.phase = Phase::Forward;
    b.origin = {"", "", "form-programs"};
    if (module.mesh.empty()) {
      Value *own = b.op(OpKind::Copy, {loss}, "eval_loss");
      program.returns.assign({own, b.op(OpKind::Copy, {count}, "eval_count")});
      return;
    }
    Value *own =
        b.op(OpKind::Reshape, {loss}, "eval_loss.own", {{"dims", std::vector<int64_t>{1}}});
    Value *packed = b.op(OpKind::Pack, {own}, "eval_loss.packed",
                         {{"at", std::vector<int64_t>{0}}, {"elems", int64_t{1}}});
    Value *sum = b.op(OpKind::AllReduce, {packed}, "eval_loss", {{"over", packed->type.axes}});
    Value *counted = b.op(OpKind::Copy, {program.find("count.all")}, "eval_count");
    program.returns.assign({sum, counted});
  }

private:
  // %y, %m, %v = batch_norm %x, ...; track %mean, %m; track %var, %v   ->   %y = %x normalised by %mean and %var
  void useRunningStatistics() {
    llvm::SmallVector<Op *, 16> norms;
    for (Op &op : program.ops)
      if (op.kind == OpKind::BatchNorm)
        norms.push_back(&op);
    for (Op *op : norms) {
      Value *mean = runningOf(op->result(1)), *var = runningOf(op->result(2));
      if (!mean || !var)
        continue; // no statistics are kept: those of the batch
      Builder b = builderAt(*op);
      std::string name = op->result()->name;
      auto make = [&](OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs,
                      const std::string &suffix) -> StatusOr<Value *> {
        return b.op(k, operands, name + suffix, std::move(attrs));
      };
      Value *y = *normaliseBy(make, op->operands[0], op->operands[1], op->operands[2], mean, var,
                              op->attrs.f("eps", 1e-5));
      // Their views may stand behind the op.
      for (Value *v : {mean, var})
        if (v->def && v->def->info().isView() && v->def->operands[0]->isSymbol()) {
          program.ops.remove(*v->def);
          program.ops.push_front(*v->def);
        }
      replaceAllUses(op->result(), y, &program);
    }
  }

  // %loss, %x.grad, ... = linear_cross_entropy_grad %x, %w, %labels, %inv, %inv   ->   %loss = linear_cross_entropy %x, %w, %labels, %inv
  Value *withoutGradients(Value *loss) {
    Op *op = loss->def;
    if (!op || op->kind != OpKind::LinearCrossEntropyGrad)
      return loss;
    llvm::SmallVector<Value *, 5> operands(op->operands.begin(), op->operands.begin() + 4);
    if (op->operands.size() > 5)
      operands.push_back(op->operands[5]);
    std::string name = loss->name;
    module.rename(program, loss, program.uniqueName(name + ".trained"));
    return builderAt(*op).create(OpKind::LinearCrossEntropy, operands, {name}, op->attrs)->result();
  }

  static Value *runningOf(Value *batch) {
    for (Op *user : batch->users)
      if (user->kind == OpKind::Track && user->operands[1] == batch)
        return user->operands[0];
    return nullptr;
  }

  // Ops that no returned value depends on.
  void dropUnneeded() {
    llvm::SmallPtrSet<Value *, 32> needed(program.returns.begin(), program.returns.end());
    llvm::SmallVector<Op *, 32> drop;
    for (Op &op : llvm::reverse(program.ops)) {
      if (llvm::none_of(op.results, [&](Value *v) { return needed.contains(v); })) {
        drop.push_back(&op);
        continue;
      }
      needed.insert(op.operands.begin(), op.operands.end());
    }
    for (Op *op : drop)
      module.eraseOp(op);
  }

  // %sum = accumulate @acc, %g; reduce_scatter %sum -> @red   ->   accumulate @acc, %g -> @acc
  void dropBoundaryReductions() {
    llvm::SmallVector<Op *, 16> reductions;
    for (Op &op : program.ops)
      if (op.kind == OpKind::ReduceScatter && !op.bound.empty())
        reductions.push_back(&op);
    for (Op *reduce : reductions) {
      Op *sum = reduce->operands[0]->def;
      module.eraseOp(reduce);
      auto *acc = static_cast<Symbol *>(sum->operands[0]);
      Builder b = builderAt(*sum);
      b.create(OpKind::Accumulate, sum->operands, {}, sum->attrs, {acc});
      module.eraseOp(sum);
    }
  }

  void storeAccumulators() {
    llvm::SmallVector<Op *, 16> ops;
    for (Op &op : program.ops)
      if (op.kind == OpKind::Accumulate && !op.bound.empty())
        ops.push_back(&op);
    for (Op *op : ops) {
      Builder b = builderAt(*op);
      b.create(OpKind::Accumulate, {op->operands[1]}, {}, {{"first", true}}, op->bound);
      module.eraseOp(op);
    }
  }

  void setInverseCount(bool keep) {
    Symbol *inv = module.symbol("inv_count");
    if (!inv)
      return;
    Value *count = countInput();
    Builder b = builderAt(program.ops.front());
    b.phase = Phase::Forward;
    b.origin = {"", "", "form-programs"};
    Value *n = count;
    if (count->type.isPartial())
      n = b.op(OpKind::AllReduce, {count}, "count.all", {{"over", std::string(count->type.axes)}});
    // Where it is first needed: in front, compute would wait for whatever comm has to finish first.
    for (Op &op : program.ops)
      if (llvm::is_contained(op.operands, inv)) {
        b.before = &op;
        b.phase = op.phase;
        break;
      }
    Value *value = b.op(OpKind::InvCount, {n}, "inv");
    replaceAllUses(inv, value, &program);
    if (keep)
      b.create(OpKind::Copy, {value}, {}, {}, {inv});
  }

  Value *countInput() {
    for (Value *in : program.inputs)
      if (in->input.role == InputMeta::Role::Count)
        return in;
    return nullptr;
  }

  void dropCount() {
    if (Value *count = countInput())
      module.eraseInput(program, count);
  }

  Builder builderAt(Op &op) {
    Builder b(module, program);
    b.phase = op.phase;
    b.before = &op;
    b.origin = op.origin;
    return b;
  }

  Module &module;
  Program &program;
  bool isFirst, isLast, persistInv;
};

} // namespace

Status formPrograms(Module &m, const PlanConfig &c) {
  Program *micro = m.program("micro");
  struct Form {
    const char *name;
    bool first, last;
  };
  std::vector<Form> forms;
  if (c.gradAccum <= 1)
    forms = {{"micro.only", true, true}};
  else if (c.gradAccum == 2)
    forms = {{"micro.first", true, false}, {"micro.last", false, true}};
  else
    forms = {
        {"micro.first", true, false}, {"micro.mid", false, false}, {"micro.last", false, true}};
  for (const Form &f : forms) {
    Program *p = cloneProgram(m, *micro, f.name);
    p->isFunc = false;
    Specialiser(m, *p, f.first, f.last, forms.size() > 1).run();
  }
  Program *eval = nullptr;
  if (c.eval) {
    eval = cloneProgram(m, *micro, "eval");
    eval->isFunc = false;
    Specialiser(m, *eval, true, true, false).evaluate();
  }
  m.eraseProgram(micro);
  if (Symbol *inv = m.symbol("inv_count"); inv && inv->users.empty() && forms.size() == 1)
    m.eraseSymbol(inv);
  m.moveProgramToEnd(m.program("update"));
  if (eval)
    m.moveProgramToEnd(eval);
  return {};
}

} // namespace ds
