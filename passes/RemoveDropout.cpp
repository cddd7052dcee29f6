// SPDX-License-Identifier: Apache-2.0
//
// remove-dropout: where nothing is trained, every element is seen.
//   %d = dropout %h, %rng {ratio=0.1, key=1}   ->   uses of %d read %h
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace ds {

void removeDropout(Module &m, Program &p) {
  for (auto it = p.ops.begin(); it != p.ops.end();) {
    Op &op = *it++;
    if (op.kind != OpKind::Dropout)
      continue;
    Value *kept = op.operands[0];
    if (auto returned = llvm::find(p.returns, op.result()); returned != p.returns.end()) {
      Builder b(m, p); // what is returned keeps its name
      b.before = &op;
      b.phase = op.phase;
      b.origin = op.origin;
      std::string name = op.result()->name;
      m.rename(p, op.result(), p.uniqueName(name + ".dropped"));
      *returned = kept = b.op(OpKind::Copy, {kept}, name);
    }
    replaceAllUses(op.result(), kept, &p);
    m.eraseOp(&op);
  }
  for (size_t i = p.inputs.size(); i-- > 0;)
    if (p.inputs[i]->input.role == InputMeta::Role::Rng)
      m.eraseInput(p, p.inputs[i]);
}

Status removeDropout(Module &m, const PlanConfig &) {
  if (Program *p = m.program("micro"))
    removeDropout(m, *p);
  return {};
}

} // namespace ds
