// SPDX-License-Identifier: Apache-2.0
//
// The last step of shrinking, on the modules themselves: an op gives way to one of its operands or to a constant.
#include "test/property/ShrinkOps.h"

#include "ir/GraphBuilder.h"
#include "ir/GraphText.h"

namespace ds::property {

static bool isKept(const Program &p, const Op &op) {
  return llvm::any_of(op.results, [&](Value *r) { return llvm::is_contained(p.returns, r); });
}

static bool isUsed(const Op &op) {
  return llvm::any_of(op.results, [](Value *r) { return !r->users.empty(); });
}

// What nothing reads any more: ops, then inputs and symbols.
static void dropUnused(Module &m, Program &p) {
  for (bool again = true; again;) {
    again = false;
    for (Op &op : p.ops)
      if (!isKept(p, op) && !isUsed(op)) {
        m.eraseOp(&op);
        again = true;
        break;
      }
  }
  for (size_t i = p.inputs.size(); i-- > 0;)
    if (p.inputs[i]->users.empty() && p.inputs[i]->name != "labels")
      m.eraseInput(p, p.inputs[i]);
  std::vector<Symbol *> symbols = m.symbols();
  for (Symbol *s : symbols)
    if (s->users.empty())
      m.eraseSymbol(s);
}

// False if the op cannot go.
static bool replace(Module &m, const std::string &name, size_t operand) {
  Program *p = m.program("micro");
  Value *v = p->find(name);
  if (!v || !v->def || isKept(*p, *v->def))
    return false;
  Op *op = v->def;
  Value *with = nullptr;
  if (operand < op->operands.size()) {
    with = op->operands[operand];
    if (with->type != v->type)
      return false;
  } else if (operand == op->operands.size() && op->kind != OpKind::Fill) {
    Builder b(m, *p);
    b.before = op;
    with = b.op(OpKind::Fill, {}, name + ".fill",
                {{"dims", v->type.dims}, {"dtype", std::string(text(v->type.dtype))}});
  } else {
    return false;
  }
  replaceAllUses(v, with, p);
  dropUnused(m, *p);
  return true;
}

static bool withoutOp(Case &c, const std::string &name, size_t operand) {
  for (std::string *text : {&c.module, &c.whole}) {
    auto m = parseModule(*text, "case.dsir");
    if (!m.ok() || !replace(**m, name, operand) || !verifyModule(**m).ok())
      return false;
    *text = printModule(**m);
  }
  return true;
}

static std::vector<std::pair<std::string, size_t>> opsOf(const Case &c) {
  std::vector<std::pair<std::string, size_t>> list;
  auto m = parseModule(c.module, "case.dsir");
  for (Op &op : (*m)->program("micro")->ops)
    list.emplace_back(op.result()->name, op.operands.size());
  return list;
}

int shrinkOps(Case &best, Failure &failure, const Predicate &fails, int budget) {
  int tried = 0;
  for (bool changed = true; changed;) {
    changed = false;
    auto ops = opsOf(best);
    for (auto it = ops.rbegin(); it != ops.rend(); ++it)
      for (size_t operand = 0; operand <= it->second && tried < budget; ++operand) {
        Case next = best;
        if (!withoutOp(next, it->first, operand))
          continue;
        ++tried;
        Failure f = fails(next);
        if (f.kind != failure.kind)
          continue;
        best = std::move(next);
        failure = std::move(f);
        changed = true;
        break;
      }
  }
  return tried;
}

} // namespace ds::property
