// SPDX-License-Identifier: Apache-2.0
//
// fuse-update: the update of a master and the rounding to 16-bit weights go over memory once.
//   %l0.master.new = adam ..., @l0.master, ... -> @l0.m, @l0.v
//   cast %l0.master.new {to="bf16"} -> @l0
//     ->   adam_round ..., @l0.master, ... {to="bf16"} -> @l0, @l0.master, @l0.m, @l0.v
// The same where a rank's slice is rounded, %l0.new = cast ..., and gathered. Only a rounding that directly follows and
// is the one use of the new master is fused; the bits are those of the two ops.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

namespace ds {

static Op *roundingOf(Op &adam) {
  auto next = std::next(adam.getIterator());
  if (adam.kind != OpKind::Adam || adam.numNamed() != 1 || next == adam.parent->ops.end())
    return nullptr;
  Value *updated = adam.result();
  bool isOnly = updated->users.size() == 1 && updated->users.front() == &*next &&
                !llvm::is_contained(adam.parent->returns, updated);
  DType to = next->result()->type.dtype;
  bool isRounding = next->kind == OpKind::Cast && (to == DType::BF16 || to == DType::F16) &&
                    updated->type.dtype == DType::F32;
  return isOnly && isRounding && adam.operands[1]->isSymbol() ? &*next : nullptr;
}

Status fuseUpdate(Module &m, const PlanConfig &) {
  for (Program *p : m.programs()) {
    llvm::SmallVector<std::pair<Op *, Op *>, 16> pairs;
    for (Op &op : p->ops)
      if (Op *rounding = roundingOf(op))
        pairs.push_back({&op, rounding});
    for (auto [adam, rounding] : pairs) {
      Builder b(m, *p);
      b.before = rounding;
      b.phase = adam->phase;
      b.origin = adam->origin;
      b.origin.pass = "fuse-update";
      Attrs attrs = adam->attrs;
      attrs.set("to", std::string(text(rounding->result()->type.dtype)));
      llvm::SmallVector<Symbol *, 4> bound(rounding->bound.begin(), rounding->bound.end());
      bound.push_back(static_cast<Symbol *>(adam->operands[1]));
      bound.append(adam->bound.begin(), adam->bound.end());
      llvm::SmallVector<Value *, 10> operands(adam->operands.begin(), adam->operands.end());
      llvm::SmallVector<std::string, 1> names;
      if (rounding->bound.empty()) {
        names.push_back(rounding->result()->name);
        m.rename(*p, rounding->result(), p->uniqueName(names[0] + ".old"));
      }
      Op *fused = b.create(OpKind::AdamRound, operands, names, attrs, bound);
      if (rounding->bound.empty())
        replaceAllUses(rounding->result(), fused->result(), p);
      m.eraseOp(rounding);
      m.eraseOp(adam);
    }
  }
  return {};
}

} // namespace ds
