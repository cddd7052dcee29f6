// SPDX-License-Identifier: Apache-2.0
#include "ir/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace ds {

// Removes one entry of op from the users of v.
static void dropUse(Value *v, Op *op) {
  auto it = llvm::find(v->users, op);
  assert(it != v->users.end() && "operand lists and user lists disagree");
  v->users.erase(it);
}

static void dropOperands(Op *op) {
  for (Value *v : op->operands)
    dropUse(v, op);
  op->operands.clear();
}

void Op::setOperand(int i, Value *v) {
  dropUse(operands[i], this);
  operands[i] = v;
  v->users.push_back(this);
}

Value *Program::find(llvm::StringRef n) const { return names.lookup(n); }

Value *Program::input(llvm::StringRef n) const {
  Value *v = find(n);
  return v && v->kind == ValueKind::Input ? v : nullptr;
}

static std::string firstFree(llvm::StringRef base, llvm::function_ref<bool(llvm::StringRef)> used) {
  std::string name = base.str();
  for (int64_t n = 2; used(name); ++n)
    name = base.str() + "." + std::to_string(n);
  return name;
}

std::string Program::uniqueName(llvm::StringRef base) const {
  return firstFree(base, [&](llvm::StringRef n) { return names.count(n) != 0; });
}

std::string Module::uniqueSymbolName(llvm::StringRef base) const {
  return firstFree(base, [&](llvm::StringRef n) { return symbolNames.count(n) != 0; });
}

Symbol *Module::symbol(llvm::StringRef n) const { return symbolNames.lookup(n); }

Program *Module::program(llvm::StringRef n) const {
  for (Program *p : programOrder)
    if (p->name == n)
      return p;
  return nullptr;
}

int64_t Module::axisSize(llvm::StringRef axis) const {
  for (auto &[n, size] : mesh)
    if (n == axis)
      return size;
  return 1;
}

Symbol *Module::addSymbol(SymbolKind k, std::string n, Type type) {
  Symbol *s = &symbolStore.emplace_back(k, std::move(n), std::move(type));
  bool isNew = symbolNames.try_emplace(s->name, s).second;
  assert(isNew && "the symbol's name is taken");
  (void)isNew;
  symbolOrder.push_back(s);
  return s;
}

void Module::eraseSymbol(Symbol *s) {
  assert(s->users.empty() && "the symbol is still used");
  symbolNames.erase(s->name);
  std::erase(symbolOrder, s);
}

Program *Module::addProgram(std::string n) {
  Program *p = &programStore.emplace_back();
  p->name = std::move(n);
  p->parent = this;
  programOrder.push_back(p);
  return p;
}

void Module::eraseProgram(Program *p) {
  for (Op &op : p->ops)
    dropOperands(&op);
  p->ops.clear();
  std::erase(programOrder, p);
}

Value *Module::addInput(Program &p, std::string n, Type type) {
  Value *v = &valueStore.emplace_back(ValueKind::Input, std::move(n), std::move(type));
  bool isNew = p.names.try_emplace(v->name, v).second;
  assert(isNew && "the input's name is taken");
  (void)isNew;
  p.inputs.push_back(v);
  return v;
}

void Module::eraseInput(Program &p, Value *input) {
  assert(input->users.empty() && "the input is still used");
  p.names.erase(input->name);
  llvm::erase_value(p.inputs, input);
}

void Module::moveProgramToEnd(Program *p) {
  std::erase(programOrder, p);
  programOrder.push_back(p);
}

Op *Module::createOp(Program &p, OpKind k, llvm::ArrayRef<Value *> operands,
                     llvm::ArrayRef<std::string> resultNames, llvm::ArrayRef<Type> resultTypes,
                     llvm::ArrayRef<Symbol *> bound, Attrs attrs, Phase phase, Origin origin) {
  assert(resultNames.size() + bound.size() == resultTypes.size());
  Op *op = &opStore.emplace_back();
  op->kind = k;
  op->phase = phase;
  op->operands.assign(operands.begin(), operands.end());
  op->bound.assign(bound.begin(), bound.end());
  op->attrs = std::move(attrs);
  op->origin = std::move(origin);
  op->parent = &p;
  for (Value *v : operands)
    v->users.push_back(op);
  for (size_t i = 0; i < resultTypes.size(); ++i) {
    bool named = i < resultNames.size();
    Value *v =
        &valueStore.emplace_back(ValueKind::Result, named ? resultNames[i] : "", resultTypes[i]);
    v->def = op;
    v->index = static_cast<int>(i);
    op->results.push_back(v);
    if (named) {
      bool isNew = p.names.try_emplace(v->name, v).second;
      assert(isNew && "the result's name is taken");
      (void)isNew;
    }
  }
  return op;
}

void Module::eraseOp(Op *op) {
  dropOperands(op);
  for (int i = 0; i < op->numNamed(); ++i) {
    assert(op->results[i]->users.empty() && "a result of the op is still used");
    op->parent->names.erase(op->results[i]->name);
  }
  op->parent->ops.remove(*op);
  op->parent = nullptr;
}

void Module::rename(Program &p, Value *v, std::string newName) {
  p.names.erase(v->name);
  v->name = std::move(newName);
  bool isNew = p.names.try_emplace(v->name, v).second;
  assert(isNew && "the new name is taken");
  (void)isNew;
}

void replaceAllUses(Value *from, Value *to, Program *p) {
  assert(from != to);
  llvm::SmallVector<Program *, 4> programs; // whose returns may hold from
  auto addProgram = [&](Program *q) {
    if (q && (!p || q == p) && !llvm::is_contained(programs, q))
      programs.push_back(q);
  };
  addProgram(p);
  addProgram(from->def ? from->def->parent : nullptr);
  addProgram(to->def ? to->def->parent : nullptr);
  llvm::SmallVector<Op *, 4> kept;
  for (Op *user : from->users) {
    if (p && user->parent != p) {
      kept.push_back(user);
      continue;
    }
    addProgram(user->parent);
    to->users.push_back(user); // one entry per use, and users has one entry per use as well
    std::replace(user->operands.begin(), user->operands.end(), from, to);
  }
  from->users = std::move(kept);
  for (Program *q : programs)
    std::replace(q->returns.begin(), q->returns.end(), from, to);
}

// Copies the inputs, ops and returns of p to q, whose module holds the symbols that `symbolOf` yields.
static void copyProgram(const Program &p, Module &m, Program &q,
                        llvm::function_ref<Symbol *(Value *)> symbolOf) {
  llvm::DenseMap<const Value *, Value *> copies;
  auto copyOf = [&](Value *v) -> Value * { return v->isSymbol() ? symbolOf(v) : copies.lookup(v); };
  q.isFunc = p.isFunc;
  q.place = p.place;
  for (Value *v : p.inputs) {
    Value *c = m.addInput(q, v->name, v->type);
    c->input = v->input;
    copies[v] = c;
  }
  for (const Op &op : p.ops) {
    llvm::SmallVector<Value *, 8> operands;
    for (Value *v : op.operands)
      operands.push_back(copyOf(v));
    llvm::SmallVector<Symbol *, 4> bound;
    for (Symbol *s : op.bound)
      bound.push_back(symbolOf(s));
    llvm::SmallVector<std::string, 4> names;
    llvm::SmallVector<Type, 4> types;
    for (Value *r : op.results) {
      types.push_back(r->type);
      if (r->index < op.numNamed())
        names.push_back(r->name);
    }
    Op *c = m.createOp(q, op.kind, operands, names, types, bound, op.attrs, op.phase, op.origin);
    q.append(c);
    for (Value *r : op.results)
      copies[r] = c->results[r->index];
  }
  for (Value *v : p.returns)
    q.returns.push_back(copyOf(v));
}

std::unique_ptr<Module> clone(const Module &m) {
  auto c = std::make_unique<Module>();
  c->name = m.name;
  c->mesh = m.mesh;
  c->directory = m.directory;
  for (const Symbol *s : m.symbols()) {
    Symbol *t = c->addSymbol(s->symbolKind, s->name, s->type);
    t->source = s->source;
    t->exportName = s->exportName;
    t->module = s->module;
    t->trainable = s->trainable;
    t->resident = s->resident;
    t->running = s->running;
    t->segments = s->segments;
    t->place = s->place;
  }
  for (const Program *p : m.programs())
    copyProgram(*p, *c, *c->addProgram(p->name), [&](Value *v) { return c->symbol(v->name); });
  return c;
}

Program *cloneProgram(Module &m, const Program &p, std::string newName) {
  Program *q = m.addProgram(std::move(newName));
  copyProgram(p, m, *q, [](Value *v) { return static_cast<Symbol *>(v); });
  return q;
}

} // namespace ds
