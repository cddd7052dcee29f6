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

// The ops that bring a bucket's weights, from the symbol on: transfers, then the gather. Empty: op is not the last of such.
llvm::SmallVector<Op *, 3> arrival(Op &op) {
  auto brings = [](const Op &o) { return o.kind == OpKind::AllGather || o.info().isTransfer(); };
  llvm::SmallVector<Op *, 3> chain;
  if (!brings(op) || !op.bound.empty() || op.result()->type.space != Space::Device ||
      llvm::any_of(op.result()->users, [&](Op *user) { return brings(*user); }))
    return chain;
  Op *at = &op;
  for (; at && brings(*at); at = at->operands[0]->def)
    chain.insert(chain.begin(), at);
  if (at || static_cast<Symbol *>(chain[0]->operands[0])->symbolKind != SymbolKind::Bucket)
    chain.clear();
  return chain;
}

// Only weights move: they are there from the program's start.
void gathersAhead(Program &p) {
  llvm::SmallVector<llvm::SmallVector<Op *, 3>, 32> gathers;
  for (Op &op : p.ops)
    if (auto chain = arrival(op); !chain.empty())
      gathers.push_back(chain);
  // From the back: gather k goes right behind the place where gather k-1 stands now.
  for (size_t k = gathers.size(); k-- > 1;) {
    Op *last = gathers[k - 1].back();
    if (gathers[k][0]->phase != last->phase && gathers[k][0]->phase == Phase::Update)
      continue;
    Op *after = &*std::next(last->getIterator());
    if (after == gathers[k][0])
      continue;
    for (Op *op : gathers[k]) {
      op->phase = last->phase;
      move(p, op, after);
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
