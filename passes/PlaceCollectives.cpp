// SPDX-License-Identifier: Apache-2.0
//
// place-collectives: moves only. A gather is issued where the previous gathered bucket's first use begins, so
// that it runs one bucket ahead of its own; what consumes a reduction is moved behind the next reduction, so
// that compute does not wait for the one just started. Nothing moves without overlap_comm, or where
// stage3_prefetch_bucket_size is 0 (gathers).
//   all_gather @l0; use l0; all_gather @l1; use l1   ->   all_gather @l0; all_gather @l1; use l0; use l1
#include "passes/Passes.h"

#include "ir/Graph.h"

namespace ds {

namespace {

void move(Program &p, Op *op, Op *before) {
  p.ops.remove(*op);
  if (before)
    p.insertBefore(before, op);
  else
    p.append(op);
}

// Only gathers of symbols move: their operand is there from the program's start.
void gathersAhead(Program &p) {
  llvm::SmallVector<Op *, 32> gathers;
  for (Op &op : p.ops)
    if (op.kind == OpKind::AllGather && op.operands[0]->isSymbol() && op.bound.empty())
      gathers.push_back(&op);
  // From the back: gather k goes right behind the place where gather k-1 stands now.
  for (size_t k = gathers.size(); k-- > 1;) {
    if (gathers[k]->phase != gathers[k - 1]->phase && gathers[k]->phase == Phase::Update)
      continue;
    Op *after = &*std::next(gathers[k - 1]->getIterator());
    if (after != gathers[k]) {
      gathers[k]->phase = gathers[k - 1]->phase;
      move(p, gathers[k], after);
    }
  }
}

// accumulate of a reduced shard: behind the next reduction's start, or to the end of the phase.
void reductionsBehind(Program &p) {
  llvm::SmallVector<Op *, 32> reductions;
  for (Op &op : p.ops)
    if (op.kind == OpKind::ReduceScatter && op.bound.empty())
      reductions.push_back(&op);
  for (size_t k = 0; k < reductions.size(); ++k) {
    Op *behind =
        k + 1 < reductions.size() ? &*std::next(reductions[k + 1]->getIterator()) : nullptr;
    llvm::SmallVector<Op *, 2> users(reductions[k]->result()->users.begin(),
                                     reductions[k]->result()->users.end());
    for (Op *u : users)
      if (u->kind == OpKind::Accumulate && u != behind)
        move(p, u, behind);
  }
}

} // namespace

Status placeCollectives(Module &m, const PlanConfig &c) {
  if (!c.overlap)
    return {};
  for (Program *p : m.programs()) {
    if (c.prefetchBucketSize > 0)
      gathersAhead(*p);
    reductionsBehind(*p);
  }
  return {};
}

} // namespace ds
