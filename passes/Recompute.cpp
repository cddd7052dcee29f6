// SPDX-License-Identifier: Apache-2.0
//
// recompute: backward computes chosen forward values again instead of keeping them.
//   forward:  %h = matmul %x, @w1; %a = tanh %h; ...     backward: ...; %h.grad = tanh_grad %a.grad, %a
//   ->        the same                                    backward: ...; %h.re = matmul %x, @w1; %a.re = tanh %h.re;
//                                                                   %h.grad = tanh_grad %a.grad, %a.re
// A clone has the op, attributes and types of its original, so it gives the same bits; dropout draws its mask by the same key.
// With dsplan.recompute = layers only what enters and leaves each repeated block is kept; with auto the planner names what is
// not (RecomputeAuto.h); any other text but none is a regex on names and module paths of the values that are not.
#include "passes/Recompute.h"

#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
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

  void run(const llvm::DenseSet<const Op *> &chosen) {
    llvm::SmallVector<Op *> forward;
    int n = 0;
    for (Op &op : program.ops) {
      position[&op] = n++;
      if (op.phase != Phase::Forward)
        continue;
      forward.push_back(&op);
      Op *viewed = op.info().isView() ? op.operands[0]->def : nullptr;
      bool wanted = op.info().isView() ? viewed && again.count(viewed) : chosen.count(&op) != 0;
      if (wanted && canRecompute(op))
        again.insert(&op);
    }
    // From the back, so that a clone's users are known: it stands before the first of them.
    for (Op *op : llvm::reverse(forward))
      if (again.count(op))
        if (Op *first = firstUser(*op))
          before[op] = first;
    for (Op *op : forward)
      if (Op *place = before.lookup(op))
        clone(*op, place);
  }

private:
  // The first op of the backward phase that needs a result of op, itself or through a clone.
  Op *firstUser(const Op &op) const {
    Op *first = nullptr;
    auto take = [&](Op *user) {
      if (user && (!first || position.lookup(user) < position.lookup(first)))
        first = user;
    };
    for (Value *r : op.results)
      for (Op *u : r->users)
        take(u->phase == Phase::Backward ? u : before.lookup(u));
    return first;
  }

  void clone(Op &op, Op *place) {
    llvm::SmallVector<Value *, 4> operands;
    for (Value *v : op.operands) {
      Value *re = clones.lookup(v);
      operands.push_back(re ? re : v);
    }
    llvm::SmallVector<std::string, 4> names;
    llvm::SmallVector<Type, 4> types;
    for (Value *r : op.results) {
      std::string name = r->name + ".re";
      for (int k = 2; program.find(name) || llvm::is_contained(names, name); ++k)
        name = r->name + ".re." + std::to_string(k);
      names.push_back(name);
      types.push_back(r->type);
    }
    Origin origin = op.origin;
    origin.pass = "recompute";
    Op *re = module.createOp(program, op.kind, operands, names, types, {}, op.attrs,
                             Phase::Backward, origin);
    program.insertBefore(place, re);
    for (size_t i = 0; i < op.results.size(); ++i) {
      Value *v = op.results[i];
      clones[v] = re->results[i];
      llvm::SmallVector<Op *, 8> users(v->users.begin(), v->users.end());
      for (Op *u : users)
        for (int k = 0; u->phase == Phase::Backward && k < static_cast<int>(u->operands.size());
             ++k)
          if (u->operands[k] == v)
            u->setOperand(k, re->results[i]);
    }
  }

  Module &module;
  Program &program;
  llvm::DenseMap<const Op *, int> position;
  llvm::DenseSet<const Op *> again;
  llvm::DenseMap<const Op *, Op *> before;       // of forward ops that are cloned: where
  llvm::DenseMap<const Value *, Value *> clones; // by original
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

void recomputeOps(Module &m, Program &p, const llvm::DenseSet<const Op *> &chosen) {
  Cloner(m, p).run(chosen);
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
  recomputeOps(m, p, chosen);
  return {};
}

} // namespace ds
