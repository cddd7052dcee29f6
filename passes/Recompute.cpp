// SPDX-License-Identifier: Apache-2.0
//
// recompute: backward computes chosen forward values again instead of keeping them.
//   forward:  %h = matmul %x, @w1; %a = tanh %h; ...     backward: ...; %h.grad = tanh_grad %a.grad, %a
//   ->        the same                                    backward: ...; %h.re = matmul %x, @w1; %a.re = tanh %h.re;
//                                                                   %h.grad = tanh_grad %a.grad, %a.re
// Where the inputs of blocks are not kept either, a sweep computes some of them again from an earlier one, and the same value may be
// computed several times: %h.re.re is the second. A clone has the op, attributes and types of its original, so it gives the same bits; dropout draws its mask by the same key.
// With dsplan.recompute = layers only what enters and leaves each repeated block is kept; with auto the planner names what is
// not (RecomputeAuto.h); any other text but none is a regex on names and module paths of the values that are not.
#include "passes/Recompute.h"

#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Regex.h"

namespace ds {

namespace {

bool readsRunning(const Value *v) {
  if (v->def && v->def->info().isView())
    return readsRunning(v->def->operands[0]);
  return v->isSymbol() && static_cast<const Symbol *>(v)->running;
}

class Cloner {
public:
  Cloner(Module &m, Program &p) : module(m), program(p) {}

  void run(const llvm::DenseSet<const Op *> &chosen, llvm::ArrayRef<RecomputeSweep> sweeps) {
    llvm::SmallVector<Op *> backward;
    for (Op &op : program.ops)
      if (op.phase == Phase::Forward)
        visitForward(op, chosen);
      else if (op.phase == Phase::Backward)
        backward.push_back(&op);
    llvm::StringMap<llvm::SmallVector<const RecomputeSweep *, 1>> due; // by what stands behind
    for (const RecomputeSweep &s : sweeps)
      due[s.before].push_back(&s);
    for (Op *op : backward) {
      if (op->numNamed() > 0)
        for (const RecomputeSweep *s : due.lookup(op->result()->name))
          sweep(*s, op);
      bring(op->operands, op, clones);
      for (int k = 0; k < static_cast<int>(op->operands.size()); ++k)
        if (Value *re = clones.lookup(op->operands[k]))
          op->setOperand(k, re);
    }
  }

private:
  using Clones = llvm::DenseMap<const Value *, Value *>; // by original

  void visitForward(Op &op, const llvm::DenseSet<const Op *> &chosen) {
    position[&op] = static_cast<int>(position.size());
    Op *viewed = op.info().isView() ? op.operands[0]->def : nullptr;
    bool wanted = op.info().isView() ? viewed && again.count(viewed) : chosen.count(&op) != 0;
    if (wanted && canRecompute(op))
      again.insert(&op);
  }

  // What lies between is there only as long as the sweep needs it.
  void sweep(const RecomputeSweep &s, Op *place) {
    Clones here = clones;
    inSweep = true;
    llvm::SmallVector<Value *> wanted;
    for (const std::string &name : s.values)
      wanted.push_back(program.find(name));
    bring(wanted, place, here);
    inSweep = false;
    for (Value *v : wanted)
      for (Value *result : v->def->results)
        if (Value *re = here.lookup(result))
          clones[result] = re;
  }

  // Clones before `place` what is missing of `wanted`, and what that needs, in their order in the forward phase.
  void bring(llvm::ArrayRef<Value *> wanted, Op *place, Clones &there) {
    llvm::SmallVector<Op *> missing, work;
    llvm::SmallPtrSet<Op *, 16> seen;
    auto need = [&](llvm::ArrayRef<Value *> values) {
      for (Value *v : values)
        if (v->def && again.count(v->def) && !there.count(v) && seen.insert(v->def).second)
          work.push_back(v->def);
    };
    need(wanted);
    while (!work.empty()) {
      missing.push_back(work.pop_back_val());
      need(missing.back()->operands);
    }
    llvm::sort(missing, [&](Op *a, Op *b) { return position.lookup(a) < position.lookup(b); });
    for (Op *op : missing)
      clone(*op, place, there);
  }

  void clone(Op &op, Op *place, Clones &there) {
    llvm::SmallVector<Value *, 4> operands;
    for (Value *v : op.operands) {
      Value *re = there.lookup(v);
      operands.push_back(re ? re : v);
    }
    std::string suffix; // .re.re: for the second time
    for (int k = times[&op]++; k >= 0; --k)
      suffix += ".re";
    llvm::SmallVector<std::string, 4> names;
    llvm::SmallVector<Type, 4> types;
    for (Value *r : op.results) {
      std::string name = r->name + suffix;
      for (int k = 2; program.find(name) || llvm::is_contained(names, name); ++k)
        name = r->name + suffix + "." + std::to_string(k);
      names.push_back(name);
      types.push_back(r->type);
    }
    Origin origin = op.origin;
    origin.pass = inSweep ? kSweepPass : kRecomputePass;
    Op *re = module.createOp(program, op.kind, operands, names, types, {}, op.attrs,
                             Phase::Backward, origin);
    program.insertBefore(place, re);
    for (size_t i = 0; i < op.results.size(); ++i)
      there[op.results[i]] = re->results[i];
  }

  Module &module;
  Program &program;
  llvm::DenseMap<const Op *, int> position, times; // in the forward phase; that it was cloned
  llvm::DenseSet<const Op *> again;
  Clones clones; // the latest
  bool inSweep = false;
};

// All of a block but what ops outside of it read.
void chooseWithin(const Block &b, llvm::DenseSet<const Op *> &chosen) {
  llvm::DenseSet<const Op *> inside(b.ops.begin(), b.ops.end());
  std::function<bool(const Value *)> leaves = [&](const Value *v) {
    return llvm::any_of(v->users, [&](Op *u) {
      if (u->phase != Phase::Forward)
        return false;
      return !inside.count(u) || (u->info().isView() && leaves(u->result()));
    });
  };
  for (Op *op : b.ops)
    if (llvm::none_of(op->results, leaves))
      chosen.insert(op);
}

Status chooseMatches(Program &p, const std::string &regex, llvm::DenseSet<const Op *> &chosen) {
  llvm::Regex r(regex);
  std::string error;
  if (!r.isValid(error))
    return Status::error("--recompute '" + regex + "': " + error);
  for (Op &op : p.ops)
    if (op.phase == Phase::Forward &&
        (r.match(op.origin.module) ||
         llvm::any_of(op.results, [&](Value *v) { return r.match(v->name); })))
      chosen.insert(&op);
  if (!chosen.empty())
    return {};
  std::string near = nearest(regex, {"none", "layers", "auto"});
  return Status::error("--recompute '" + regex + "' matches no value and no module path" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
}

} // namespace

bool canRecompute(const Op &op) {
  return op.info().isPure() && op.bound.empty() && op.kind != OpKind::Track &&
         llvm::none_of(op.operands, readsRunning);
}

void recomputeOps(Module &m, Program &p, const llvm::DenseSet<const Op *> &chosen,
                  llvm::ArrayRef<RecomputeSweep> sweeps) {
  Cloner(m, p).run(chosen, sweeps);
}

Status recompute(Module &m, const PlanConfig &c) {
  if (c.recompute.empty() || c.recompute == "none")
    return {};
  Program &p = *m.program("micro");
  llvm::DenseSet<const Op *> chosen;
  if (c.recompute == "auto")
    for (const std::string &name : c.recomputeValues)
      chosen.insert(p.find(name)->def);
  else if (c.recompute == "layers")
    for (const Block &b : repeatedBlocks(p))
      chooseWithin(b, chosen);
  else
    TRY(chooseMatches(p, c.recompute, chosen));
  recomputeOps(m, p, chosen,
               c.recompute == "auto" ? c.recomputeSweeps : std::vector<RecomputeSweep>());
  return {};
}

} // namespace ds
