// SPDX-License-Identifier: Apache-2.0
//
// What autodiff makes of a value that was cut into pieces: each piece's gradient padded to the whole, and their sum.
//   %a = pad %x {low=[0,0], high=[0,4]}; %b = pad %y {low=[0,2], high=[0,0]}; %s = add %a, %b
//     ->   %s = concat %x, %y {axis=1}
// The pieces must fill one axis without overlap, and what is padded and added have no other use.
#include "passes/Formulas.h"
#include "passes/Match.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace ds {

namespace {

using Dims = std::vector<int64_t>;

struct Sum {
  llvm::SmallVector<Op *, 4> adds, pads;
};

// The pads that are added up, through sums that nothing else reads.
bool collect(const Program &p, Op &add, Sum &sum) {
  sum.adds.push_back(&add);
  for (Value *v : add.operands) {
    Op *op = v->def;
    if (!op || !onlyUser(p, v) || v->type != add.result()->type)
      return false;
    if (op->kind == OpKind::Pad)
      sum.pads.push_back(op);
    else if (op->kind != OpKind::Add || !collect(p, *op, sum))
      return false;
  }
  return true;
}

// The axis along which the pad, of zeros, is the only one; -1: there is none.
int64_t axisOf(const Op &pad) {
  Dims low = pad.attrs.list("low"), high = pad.attrs.list("high");
  int64_t axis = -1;
  bool plain = pad.attrs.f("value") == 0 &&
               llvm::all_of(pad.attrs.list("interior"), [](int64_t n) { return n == 0; });
  for (size_t i = 0; i < low.size(); ++i) {
    if (low[i] == 0 && high[i] == 0)
      continue;
    plain &= axis < 0 && low[i] >= 0 && high[i] >= 0;
    axis = static_cast<int64_t>(i);
  }
  return plain ? axis : -1;
}

bool fills(Sum &sum, int64_t axis, int64_t extent) {
  auto low = [&](const Op *pad) { return pad->attrs.list("low")[static_cast<size_t>(axis)]; };
  llvm::sort(sum.pads, [&](const Op *a, const Op *b) { return low(a) < low(b); });
  int64_t at = 0;
  for (const Op *pad : sum.pads) {
    if (axisOf(*pad) != axis || low(pad) != at)
      return false;
    at += pad->operands[0]->type.dims[static_cast<size_t>(axis)];
  }
  return at == extent;
}

} // namespace

void joinPads(Module &m, Program &p) {
  llvm::SmallVector<Op *> adds;
  for (Op &op : p.ops)
    if (op.kind == OpKind::Add)
      adds.push_back(&op);
  llvm::DenseSet<const Op *> gone;
  for (Op *add : llvm::reverse(adds)) { // whole sums before their parts
    Sum sum;
    if (gone.count(add) || !collect(p, *add, sum))
      continue;
    int64_t axis = axisOf(*sum.pads[0]);
    Value *whole = add->result();
    if (axis < 0 || !fills(sum, axis, whole->type.dims[static_cast<size_t>(axis)]))
      continue;
    Builder b(m, p);
    b.before = add;
    b.phase = add->phase;
    b.origin = add->origin;
    llvm::SmallVector<Value *, 4> pieces;
    for (const Op *pad : sum.pads)
      pieces.push_back(pad->operands[0]);
    std::string name = whole->name;
    m.rename(p, whole, p.uniqueName(name + ".sum"));
    replaceAllUses(whole, b.op(OpKind::Concat, pieces, name, {{"axis", axis}}), &p);
    for (Op *op : sum.adds) { // from the root
      gone.insert(op);
      m.eraseOp(op);
    }
    for (Op *op : sum.pads)
      m.eraseOp(op);
  }
}

} // namespace ds
