// SPDX-License-Identifier: Apache-2.0
//
// fuse-head: the last product of a language model and its cross-entropy as one op, whose logits are never there as a whole.
//   %logits = matmul %x, @w {trans_b}; %h.shifted = slice %logits ...; %loss, %lse = cross_entropy %h.shifted, %labels, @inv
//     ->   %x.shifted = slice %x ...; %loss = linear_cross_entropy %x.shifted, @w, %labels, @inv {trans_w}
// Where a bias is added, it becomes an operand. Only where the loss is what is returned, and where both sides of the product are
// trained: their gradients are made together. By default only where logits are what memory is for: at least twice as many classes as
// features, and more rows than features (with 16 bits, three times as many), since the op holds the weights beside their gradient, and
// beside 16-bit ones f32 sums. It stands before recompute and partitioning: the bits of a model are the same under all of them.
//
// join-loss, behind autodiff: the gradients' op has the loss, too, so that the product is made once.
//   %loss = linear_cross_entropy ...; ...; %loss.re, %x.grad, %w.grad, %b.grad = linear_cross_entropy_grad ...   ->   the second alone
#include "passes/Match.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseSet.h"

namespace ds {

namespace {

// Values that depend on a trainable parameter.
llvm::DenseSet<const Value *> trained(const Module &m, Program &p) {
  llvm::DenseSet<const Value *> values;
  for (const Symbol *s : m.symbols())
    if (s->symbolKind == SymbolKind::Param && s->trainable && isFloat(s->type.dtype))
      values.insert(s);
  for (Op &op : p.ops)
    if (llvm::any_of(op.operands, [&](Value *v) { return values.count(v) != 0; }))
      for (Value *r : op.results)
        values.insert(r);
  return values;
}

// Whether a slice or reshape of logits only chooses or counts rows.
bool keepsClasses(const Op &op) {
  if (op.kind != OpKind::Reshape && op.kind != OpKind::Slice)
    return false;
  const std::vector<int64_t> &from = op.operands[0]->type.dims, &to = op.result()->type.dims;
  return !from.empty() && !to.empty() && from.back() == to.back();
}

class Head {
public:
  Head(Module &m, Program &p, Op &loss, const PlanConfig &c)
      : module(m), program(p), loss(loss), config(c) {}

  void fuse() {
    if (!match())
      return;
    Builder b(module, program);
    b.before = &loss;
    b.phase = loss.phase;
    b.origin = product->origin;
    Value *x = product->operands[0];
    for (Op *op : llvm::reverse(rows))
      x = onRows(b, *op, x);
    llvm::SmallVector<Value *, 5> operands{x, product->operands[1], loss.operands[1],
                                           loss.operands[2]};
    if (bias)
      operands.push_back(bias);
    std::string name = loss.result()->name;
    module.rename(program, loss.result(), program.uniqueName(name + ".unfused"));
    Op *fused = b.create(OpKind::LinearCrossEntropy, operands, {name},
                         {{"trans_w", product->attrs.flag("trans_b")},
                          {"ignore_index", loss.attrs.i("ignore_index", -100)}});
    replaceAllUses(loss.result(), fused->result(), &program);
    eraseDead(module, program, &loss);
  }

private:
  bool match() {
    if (program.returns.size() != 1 || program.returns[0] != loss.result() ||
        !loss.result(0)->users.empty() || !loss.result(1)->users.empty())
      return false;
    Value *v = loss.operands[0];
    for (; onlyUser(program, v) && v->def; v = v->def->operands[0]) {
      if (!keepsClasses(*v->def))
        break;
      rows.push_back(v->def);
    }
    if (!onlyUser(program, v) || !v->def)
      return false;
    product = v->def;
    if (product->kind == OpKind::Add) {
      for (Value *side : product->operands)
        if (Value *other = otherOperand(*product, side);
            other->type.dims == std::vector<int64_t>{v->type.dims.back()} && side->def &&
            side->def->kind == OpKind::Matmul && side->type == v->type) {
          bias = other;
          v = side;
          break;
        }
      if (!bias || !onlyUser(program, v))
        return false;
      product = v->def;
    }
    if (product->kind != OpKind::Matmul || product->attrs.flag("trans_a"))
      return false;
    const Value *x = product->operands[0], *w = product->operands[1];
    if (w->type.rank() != 2 || x->type.rank() < 1 || x->type.dtype != w->type.dtype)
      return false;
    auto active = trained(module, program);
    return active.count(x) && active.count(w) && (config.fuse == "on" || savesMemory(*x, *v));
  }

  bool savesMemory(const Value &x, const Value &logits) const {
    const int64_t features = x.type.dims.back(), classes = logits.type.dims.back(),
                  rows = loss.operands[1]->type.elems();
    return classes >= 2 * features && rows > (config.precision.isHalf() ? 3 : 1) * features;
  }

  // The same choice among x's rows.
  static Value *onRows(Builder &b, const Op &op, Value *x) {
    const int64_t features = x->type.dims.back();
    Attrs attrs = op.attrs;
    for (const char *list : {"dims", "limits"})
      if (op.attrs.find(list)) {
        std::vector<int64_t> values = op.attrs.list(list);
        values.back() = features;
        attrs.set(list, values);
      }
    return b.op(op.kind, {x}, op.result()->name + ".rows", attrs);
  }

  Module &module;
  Program &program;
  Op &loss;
  const PlanConfig &config;
  llvm::SmallVector<Op *, 4> rows; // from the loss up
  Op *product = nullptr;
  Value *bias = nullptr;
};

} // namespace

Status fuseHead(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (!p || c.fuse == "off")
    return {};
  Value *loss = p->returns.empty() ? nullptr : p->returns[0];
  if (loss && loss->def && loss->def->kind == OpKind::CrossEntropy)
    Head(m, *p, *loss->def, c).fuse();
  return {};
}

Status joinLoss(Module &m, const PlanConfig &) {
  Program *p = m.program("micro");
  Value *loss = p && !p->returns.empty() ? p->returns[0] : nullptr;
  if (!loss || !loss->def || loss->def->kind != OpKind::LinearCrossEntropy || !loss->users.empty())
    return {};
  Op *forward = loss->def;
  for (Op &op : p->ops)
    if (op.kind == OpKind::LinearCrossEntropyGrad &&
        std::equal(forward->operands.begin(), forward->operands.begin() + 4, op.operands.begin())) {
      std::string name = loss->name;
      p->returns[0] = op.result();
      m.eraseOp(forward);
      m.rename(*p, op.result(), name);
      return {};
    }
  return {};
}

} // namespace ds
