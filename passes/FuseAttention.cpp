// SPDX-License-Identifier: Apache-2.0
//
// fuse-attention: one op in the place of the products and the softmax of attention, which needs no T x S matrix.
//   %s = matmul %q, %k {trans_b}; %m = mul %s, %c; %a = add %m, %mask; %p = softmax %a; %o = matmul %p, %v
//     ->   %o, %o.lse = attention %q, %k, %v, %mask {scale=c}
// A mask that is -1e30 or less behind the diagonal and 0 elsewhere becomes `causal`. Heads of k and v that are repeated
// (reshape, broadcast, reshape) are read in place. Where q, k and v are transposes of [B,T,H,D] and so is what is made of o, the
// transposes go, too. What has other users, a mask with a gradient, or anything in between (dropout) stays as it is.
#include "passes/Match.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace ds {

namespace {

using Dims = std::vector<int64_t>;

/// To what hidden scores are at most set: the exponential of any difference is 0, and adding any score changes nothing.
constexpr double kHidden = -1e30;

bool hides(const Value *v) {
  std::optional<double> c = constantOf(v);
  return c && *c <= kHidden;
}

bool isTranspose(const Value *v, const Dims &perm) {
  return v->def && v->def->kind == OpKind::Transpose && v->def->attrs.list("perm") == perm;
}

// Whether a gradient may have to flow to v.
bool mayWantGradient(const Value *v, bool ofInputs) {
  if (!isFloat(v->type.dtype))
    return false;
  if (v->isSymbol())
    return static_cast<const Symbol *>(v)->symbolKind != SymbolKind::Const;
  if (!v->def)
    return ofInputs;
  return llvm::any_of(v->def->operands,
                      [&](const Value *o) { return mayWantGradient(o, ofInputs); });
}

/// What was found from the softmax on.
struct Match {
  Op *softmax = nullptr, *product = nullptr; // softmax(..), p v
  Value *q = nullptr, *k = nullptr, *v = nullptr;
  Value *mask = nullptr;                    // added; null: none
  Value *visible = nullptr, *low = nullptr; // or: where visible the score, else low
  bool hiddenWhere = false;                 // visible is true where low is taken
  bool causal = false;
  bool rowsFirstK = false; // k is [B,S,H,D]
  double scale = 1;
};

class Fuser {
public:
  /// inputGrads: gradients for inputs are asked for.
  Fuser(Module &m, Program &p, bool inputGrads) : module(m), program(p), inputGrads(inputGrads) {}

  void run() {
    llvm::SmallVector<Op *, 32> softmaxes;
    for (Op &op : program.ops)
      if (op.kind == OpKind::Softmax)
        softmaxes.push_back(&op);
    for (Op *op : softmaxes) {
      Match found;
      if (match(*op, found))
        replace(found);
    }
  }

private:
  Op *onlyUser(const Value *v) const { return ds::onlyUser(program, v); }

  bool match(Op &softmax, Match &found) const {
    const Type &type = softmax.result()->type;
    int64_t axis = softmax.attrs.i("axis", -1), rank = type.rank();
    Op *product = onlyUser(softmax.result());
    if ((axis != -1 && axis != rank - 1) || rank < 3 || rank > 4 || !product ||
        product->kind != OpKind::Matmul || product->operands[0] != softmax.result() ||
        product->operands[1] == softmax.result() || product->attrs.flag("trans_a") ||
        product->attrs.flag("trans_b"))
      return false;
    found.softmax = &softmax;
    found.product = product;
    found.v = product->operands[1];
    Value *scores = softmax.operands[0];
    if (!matchScores(scores, found) && !(matchMask(scores, found) && matchScores(scores, found)))
      return false;
    Dims lead(type.dims.begin(), type.dims.end() - 2);
    auto fits = [&](const Value *x) {
      return x->type.rank() == rank && std::equal(lead.begin(), lead.end(), x->type.dims.begin());
    };
    return fits(found.q) && (found.rowsFirstK || fits(found.k)) && fits(found.v);
  }

  // Takes what is added to the scores, or the choice that hides some, off.
  bool matchMask(Value *&scores, Match &found) const {
    Op *op = scores->def;
    if (!op || !onlyUser(scores))
      return false;
    auto isSeen = [&](Value *v) { return v->type.dims == scores->type.dims; };
    if (op->kind == OpKind::Where)
      for (int i : {1, 2})
        if (hides(op->operands[3 - i]) && isSeen(op->operands[i])) {
          found.visible = op->operands[0];
          found.low = op->operands[3 - i];
          found.hiddenWhere = i == 2;
          found.causal = i == 1 && isCausalCondition(found.visible);
          scores = op->operands[i];
          return true;
        }
    if (op->kind != OpKind::Add)
      return false;
    for (int i : {0, 1}) {
      Value *mask = op->operands[1 - i];
      Match probe;
      if (mayWantGradient(mask, inputGrads) || !isSeen(op->operands[i]) ||
          !matchScores(op->operands[i], probe))
        continue;
      found.mask = mask;
      found.causal = isCausalMask(mask);
      scores = op->operands[i];
      return true;
    }
    return false;
  }

  // scale * q k^T.
  bool matchScores(Value *scores, Match &found) const {
    for (Op *op = scores->def; op && onlyUser(scores); scores = op->operands[0], op = scores->def) {
      if (op->kind == OpKind::Matmul)
        return matchProduct(*op, found);
      std::optional<double> c;
      if (op->kind == OpKind::Mul || op->kind == OpKind::Div)
        c = constantOf(op->operands[1]);
      if (!c || *c == 0 || op->operands[0]->type != op->result()->type)
        return false;
      found.scale = op->kind == OpKind::Mul ? found.scale * *c : found.scale / *c;
    }
    return false;
  }

  bool matchProduct(Op &op, Match &found) const {
    if (op.attrs.flag("trans_a"))
      return false;
    found.q = op.operands[0];
    found.k = op.operands[1];
    if (op.attrs.flag("trans_b"))
      return true;
    // k^T, transposed by an op.
    Dims swap(found.k->type.dims.size());
    for (size_t i = 0; i < swap.size(); ++i)
      swap[i] = static_cast<int64_t>(i);
    if (swap.size() < 2)
      return false;
    std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
    if (!isTranspose(found.k, swap) && !isTranspose(found.k, {0, 2, 3, 1}))
      return false;
    found.k = found.k->def->operands[0];
    found.rowsFirstK = op.operands[1]->def->attrs.list("perm") != swap;
    return true;
  }

  static bool lastTwo(const Value *v, const Value *whole) {
    const Dims &d = v->type.dims;
    return d.size() >= 2 && whole->type.elems() == d[d.size() - 1] * d[d.size() - 2];
  }

  // hidden below 0 behind the diagonal of the last two axes, 0 elsewhere, the same for all others
  static bool isCausalMask(const Value *mask) {
    const Op *op = mask->def;
    return op && op->kind == OpKind::Trilu && op->attrs.flag("upper") && op->attrs.i("k") == 1 &&
           hides(op->operands[0]) && lastTwo(mask, mask);
  }
  static bool isCausalCondition(const Value *seen) {
    const Op *op = seen->def;
    if (!op || op->kind != OpKind::Trilu || op->attrs.flag("upper") || op->attrs.i("k") != 0)
      return false;
    const Op *fill = op->operands[0]->def;
    return fill && fill->kind == OpKind::Fill && fill->attrs.f("value") != 0 && lastTwo(seen, seen);
  }

  // x whose heads are repeated: of k[B,G,S,D] -> [B,G,1,S,D] -> [B,G,n,S,D] -> [B,G*n,S,D]. Else v.
  static Value *withoutRepeats(Value *v) {
    auto step = [](Value *x, OpKind k) {
      return x && x->def && x->def->kind == k ? x->def->operands[0] : nullptr;
    };
    Value *repeated = step(v, OpKind::Reshape), *one = step(repeated, OpKind::Broadcast),
          *heads = step(one, OpKind::Reshape);
    if (!heads || heads->type.rank() != 4 || one->type.rank() != 5 || v->type.rank() != 4)
      return v;
    const Dims &h = heads->type.dims, &o = one->type.dims, &r = repeated->type.dims,
               &out = v->type.dims;
    bool same = o == Dims{h[0], h[1], 1, h[2], h[3]} && r == Dims{h[0], h[1], r[2], h[2], h[3]} &&
                out == Dims{h[0], h[1] * r[2], h[2], h[3]};
    return same ? heads : v;
  }

  void replace(Match &found) {
    Op &last = *found.product;
    Builder b(module, program);
    b.before = &last;
    b.phase = last.phase;
    b.origin = last.origin;
    std::string name = last.result()->name;
    Value *q = found.q, *k = found.k, *v = found.v, *result = last.result();
    bool flat = q->type.rank() == 3;
    if (flat)
      for (Value **x : {&q, &k, &v})
        *x = b.op(OpKind::Reshape, {*x}, (*x)->name + ".heads",
                  {{"dims", Dims{(*x)->type.dims[0], 1, (*x)->type.dims[1], (*x)->type.dims[2]}}});
    Value *fewK = withoutRepeats(k), *fewV = withoutRepeats(v);
    if (!found.rowsFirstK && fewK->type.dims[1] == fewV->type.dims[1])
      k = fewK, v = fewV;

    // k^T that was made of [B,S,H,D] at once: the transpose of rows and heads alone.
    const Dims rows = {0, 2, 1, 3};
    Op *after = onlyUser(result);
    bool rowsFirst = !flat && isTranspose(q, rows) && isTranspose(v, rows) &&
                     (found.rowsFirstK || isTranspose(k, rows)) && after &&
                     isTranspose(after->result(), rows);
    if (rowsFirst) {
      q = q->def->operands[0];
      k = found.rowsFirstK ? k : k->def->operands[0];
      v = v->def->operands[0];
      result = after->result();
      name = result->name;
      b.before = after;
    } else if (found.rowsFirstK) {
      k = b.op(OpKind::Transpose, {k}, k->name + ".heads", {{"perm", rows}});
    }
    llvm::SmallVector<Value *, 4> operands{q, k, v};
    if (!found.causal && (found.mask || found.visible))
      operands.push_back(maskOf(b, found, flat));
    module.rename(program, result, program.uniqueName(name + ".unfused"));
    Op *fused =
        b.create(OpKind::Attention, operands, {name, name + ".lse"},
                 {{"scale", found.scale}, {"causal", found.causal}, {"rows_first", rowsFirst}});
    Value *o = fused->result();
    if (flat)
      o = b.op(OpKind::Reshape, {o}, name + ".rows", {{"dims", result->type.dims}});
    replaceAllUses(result, o, &program);
    eraseDead(module, program, result->def);
  }

  Value *maskOf(Builder &b, const Match &found, bool flat) {
    Value *mask = found.mask;
    if (found.visible) {
      Value *zero = b.op(
          OpKind::Fill, {}, "c",
          {{"dims", Dims{}}, {"dtype", std::string(text(found.low->type.dtype))}, {"value", 0.0}});
      mask = b.op(OpKind::Where,
                  {found.visible, found.hiddenWhere ? found.low : zero,
                   found.hiddenWhere ? zero : found.low},
                  found.softmax->result()->name + ".mask");
    }
    if (flat && mask->type.rank() == 3) {
      const Dims &d = mask->type.dims;
      mask = b.op(OpKind::Reshape, {mask}, mask->name + ".heads",
                  {{"dims", Dims{d[0], 1, d[1], d[2]}}});
    }
    return mask;
  }

  Module &module;
  Program &program;
  bool inputGrads;
};

} // namespace

Status fuseAttention(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (p && c.fuse != "off")
    Fuser(m, *p, !c.wrt.empty()).run();
  return {};
}

} // namespace ds
