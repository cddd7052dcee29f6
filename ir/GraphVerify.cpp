// SPDX-License-Identifier: Apache-2.0
//
// The verifier of the graph IR. It trusts nothing that the parser or a pass has derived: types are inferred
// again, use lists counted. The rules (docs/ir.md says more):
//   G1  operands are symbols, inputs, or results of earlier ops of the same program; use lists agree
//   G2  names are well formed and unique
//   G3  operand, result and attribute sets fit the op's row
//   G4  types are what the op's rule infers; a bound result has its symbol's type
//   G5  a symbol is bound at most once in a program, and a const never
//   G6  a tied result that is bound to @s updates @s, or an own or view of it
//   G7  sizes fit; segments are aligned, disjoint and inside their bucket; sources fit their type
//   G8  placements name axes of the mesh; shards are flat and divide evenly
//   G9  operands are placed as the op allows         G10  partial values feed only what sums them
//   G11 partial values persist only in accumulators, are not returned, and do not outlive `update`
//   G12 operands of an op lie in one memory space     G13  inputs and returns are what the runtime can serve
#include "ir/GraphBuilder.h"
#include "ir/GraphSyntax.h"
#include "ir/GraphText.h"
#include "ir/Lexer.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

namespace ds {

namespace {

class Verifier {
public:
  explicit Verifier(const Module &m) : m(m) {}
  Status run();

private:
  void error(const std::string &place, const std::string &text) {
    errors.merge(Status::error(text).at(place));
  }
  void mesh();
  void symbol(const Symbol &s);
  void source(const Symbol &s, const std::string &who, const Source &src, const Type &t);
  void segments(const Symbol &s);
  void program(const Program &p);
  void input(const Program &p, const Value &v);
  void name(const Program &p, const Value &v, const std::string &place);
  void op(const Program &p, const Op &op);
  void operands(const Program &p, const Op &op);
  void types(const Op &op);
  void bindings(const Program &p, const Op &op);
  void returns(const Program &p);
  void uses(const Value &v, const std::string &place);

  const Module &m;
  Status errors;
  llvm::StringSet<> params;                           // names of all segments
  llvm::DenseSet<const Value *> defined;              // values of the current program so far
  llvm::DenseMap<const Symbol *, const Op *> binders; // in the current program
  llvm::DenseMap<const Value *, size_t> counted;      // uses seen
};

std::string subject(const Op &op) {
  std::string s(op.info().text);
  return op.numNamed() > 0 ? s + " %" + op.results[0]->name : s;
}

void Verifier::mesh() {
  llvm::StringSet<> axes;
  for (auto &[axis, size] : m.mesh) {
    if (!isName(axis) || !axes.insert(axis).second)
      error("", "mesh: axis '" + axis + "' is no name, or given twice [G2]");
    if (size < 1)
      error("", "mesh: axis '" + axis + "' has size " + std::to_string(size) + " [G8]");
  }
}

// -- symbols ----------------------------------------------------------------------------------------

void Verifier::source(const Symbol &s, const std::string &who, const Source &src, const Type &t) {
  int64_t bytes = Type(src.stored, t.dims).bytes();
  if (src.kind == Source::Kind::Hex && static_cast<int64_t>(src.bytes.size()) != bytes)
    error(s.place, who + ": " + Type(src.stored, t.dims).str() + " takes " + std::to_string(bytes) +
                       " bytes, but hex data has " + std::to_string(src.bytes.size()) + " [G7]");
  if (src.kind == Source::Kind::Normal && !isFloat(t.dtype))
    error(s.place, who + ": init normal needs a float type, not " + t.str() + " [G7]");
  if (src.kind == Source::Kind::File && src.offset < 0)
    error(s.place, who + ": file offset " + std::to_string(src.offset) + " is negative [G7]");
}

void Verifier::segments(const Symbol &s) {
  int64_t end = 0; // of the segment before; segments are in order of their offset
  for (const Segment &g : s.segments) {
    std::string who = "@" + s.name + ": segment @" + g.param;
    if (!isName(g.param) || !params.insert(g.param).second)
      error(s.place, who + " is no name, or in two buckets [G2]");
    Type t(s.type.dtype, g.shape);
    if (std::string problem = typeProblem(t, m); !problem.empty()) {
      error(s.place, who + ": " + problem);
      continue;
    }
    if (g.at < 0 || g.at % kQuantum != 0)
      error(s.place, who + " starts at " + std::to_string(g.at) + ", which is no multiple of " +
                         std::to_string(kQuantum) + " [G7]");
    else if (g.at < end)
      error(s.place, who + " starts at " + std::to_string(g.at) + ", but the one before ends at " +
                         std::to_string(end) + " [G7]");
    if (g.at > s.type.elems() || t.elems() > s.type.elems() - g.at)
      error(s.place, who + " has " + std::to_string(t.elems()) + " elements at " +
                         std::to_string(g.at) + ", but the bucket has " +
                         std::to_string(s.type.elems()) + " [G7]");
    else
      end = std::max(end, g.at + t.elems());
    if (g.group < 0)
      error(s.place, who + ": group " + std::to_string(g.group) + " is negative [G7]");
    source(s, who, g.source, t);
  }
}

void Verifier::symbol(const Symbol &s) {
  std::string who = "@" + s.name;
  if (!isName(s.name) || m.symbol(s.name) != &s)
    error(s.place, who + " is no name, or not the module's symbol of that name [G2]");
  if (std::string problem = typeProblem(s.type, m); !problem.empty()) {
    error(s.place, who + ": " + s.type.str() + ": " + problem);
    return;
  }
  if (s.type.isPartial() && s.symbolKind != SymbolKind::Accum)
    error(s.place,
          who + ": only an accum may be partial, not a " + text(s.symbolKind).str() + " [G11]");
  source(s, who, s.source, s.type);
  if (s.symbolKind != SymbolKind::Bucket)
    return;
  if (s.type.rank() != 1 || s.type.dims[0] % kQuantum != 0)
    error(s.place, who + ": a bucket is flat and a multiple of " + std::to_string(kQuantum) +
                       " elements, not " + s.type.str() + " [G7]");
  segments(s);
}

// -- programs ---------------------------------------------------------------------------------------

void Verifier::name(const Program &p, const Value &v, const std::string &place) {
  if (!isName(v.name) || p.find(v.name) != &v)
    error(place, "%" + v.name + " is no name, or not @" + p.name + "'s value of that name [G2]");
}

void Verifier::input(const Program &p, const Value &v) {
  std::string who = "input %" + v.name;
  name(p, v, p.place);
  defined.insert(&v);
  if (std::string problem = typeProblem(v.type, m); !problem.empty())
    error(p.place, who + ": " + v.type.str() + ": " + problem);
  const InputMeta &meta = v.input;
  bool ownShare = v.type.isPartial() && meta.role == InputMeta::Role::Count;
  if ((v.type.isShard() || v.type.isPartial()) && !ownShare)
    error(p.place, who + " is " + v.type.str() + ", but an input is local or repl [G13]");
  if (meta.bound < 0 || (meta.bound > 0 && !isInt(v.type.dtype)))
    error(p.place, who + ": below " + std::to_string(meta.bound) + " needs an integer type, not " +
                       v.type.str() + " [G13]");
  if (meta.role == InputMeta::Role::Rng &&
      (v.type.dtype != DType::U64 || v.type.dims != std::vector<int64_t>{2}))
    error(p.place, who + ": an rng is u64[2], not " + v.type.str() + " [G13]");
  if (meta.role != InputMeta::Role::Count)
    return;
  if (v.type.dtype != DType::F64 || v.type.rank() != 0)
    error(p.place, who + ": a count is f64[], not " + v.type.str() + " [G13]");
  if (!meta.countOf.empty() && !p.input(meta.countOf))
    error(p.place,
          who + " counts %" + meta.countOf + ", which is no input of @" + p.name + " [G13]");
}

void Verifier::operands(const Program &p, const Op &op) {
  for (const Value *v : op.operands) {
    ++counted[v];
    if (v->isSymbol()) {
      if (m.symbol(v->name) != v)
        error(op.origin.node, subject(op) + ": @" + v->name + " is not in the module [G1]");
    } else if (!defined.count(v)) {
      error(op.origin.node, subject(op) + ": %" + v->name + " is not defined before this op of @" +
                                p.name + " [G1]");
    }
  }
}

void Verifier::types(const Op &op) {
  const std::string &place = op.origin.node;
  Attrs complete = op.attrs;
  if (Status s = completeAttrs(complete, op.info().attrs, subject(op)); !s.ok()) {
    error(place, s.entries()[0].text + " [G3]");
    return;
  }
  if (std::distance(complete.begin(), complete.end()) !=
      std::distance(op.attrs.begin(), op.attrs.end()))
    error(place, subject(op) + ": attributes without a value [G3]");
  llvm::SmallVector<Type, 8> in, out;
  for (const Value *v : op.operands)
    in.push_back(v->type);
  if (static_cast<int>(op.results.size()) != op.info().outs || op.numNamed() < 0) {
    error(place, subject(op) + ": " + std::to_string(op.results.size()) + " results, expected " +
                     std::to_string(op.info().outs) + " [G3]");
    return;
  }
  if (Status s = inferTypes(op.kind, in, complete, m, out, op.bound); !s.ok()) {
    errors.merge(std::move(s).at(place));
    return;
  }
  for (const Value *r : op.results)
    if (r->type != out[r->index])
      error(place, subject(op) + ": result " + std::to_string(r->index) + " is declared as " +
                       r->type.str() + ", but is " + out[r->index].str() + " [G4]");
}

// The symbol whose storage v shows, or null.
const Value *viewedSymbol(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v->isSymbol() ? v : nullptr;
}

void Verifier::bindings(const Program &p, const Op &op) {
  for (int i = op.numNamed(); i < static_cast<int>(op.results.size()); ++i) {
    const Symbol *s = op.boundTo(i);
    std::string who = subject(op) + " -> @" + s->name;
    if (m.symbol(s->name) != s)
      error(op.origin.node, who + ": the symbol is not in the module [G1]");
    if (s->symbolKind == SymbolKind::Const)
      error(op.origin.node, who + ": a const is never bound [G5]");
    if (auto [it, isNew] = binders.try_emplace(s, &op); !isNew)
      error(op.origin.node,
            who + ": @" + p.name + " binds it already, by " + subject(*it->second) + " [G5]");
    if (p.name == "update" && s->type.isPartial())
      error(op.origin.node,
            who + ": update must end with no partial value, but it is " + s->type.str() + " [G11]");
    int tied = tiedOperand(op.kind, i, static_cast<int>(op.operands.size()));
    if (tied >= 0 && tied < static_cast<int>(op.operands.size()) &&
        viewedSymbol(op.operands[tied]) != s)
      error(op.origin.node, who + ": the result updates operand " + std::to_string(tied) +
                                ", which is not @" + s->name + " or a view of it [G6]");
  }
}

void Verifier::op(const Program &p, const Op &op) {
  if (op.parent != &p)
    error(op.origin.node, subject(op) + ": belongs to another program than @" + p.name + " [G1]");
  operands(p, op);
  types(op);
  bindings(p, op);
  for (const Value *r : op.results) {
    if (r->def != &op)
      error(op.origin.node, subject(op) + ": a result does not know its op [G1]");
    if (r->index < op.numNamed()) {
      name(p, *r, op.origin.node);
      defined.insert(r);
    }
  }
}

void Verifier::returns(const Program &p) {
  llvm::DenseSet<const Value *> seen;
  for (const Value *v : p.returns) {
    std::string who = "@" + p.name + " returns %" + v->name;
    if (!defined.count(v))
      error(p.place, who + ", which is no value of it [G13]");
    if (!seen.insert(v).second)
      error(p.place, who + " twice [G13]");
    if (v->type.isPartial())
      error(p.place, who + ", which is " + v->type.str() + " [G11]");
  }
}

void Verifier::uses(const Value &v, const std::string &place) {
  if (v.users.size() != counted.lookup(&v))
    error(place, std::string(v.isSymbol() ? "@" : "%") + v.name + " has " +
                     std::to_string(counted.lookup(&v)) + " uses, but lists " +
                     std::to_string(v.users.size()) + " [G1]");
}

void Verifier::program(const Program &p) {
  if (!isName(p.name) || m.program(p.name) != &p)
    error(p.place, "program @" + p.name + " is no name, or defined twice [G2]");
  defined.clear();
  binders.clear();
  for (const Value *v : p.inputs)
    input(p, *v);
  for (const Op &o : p.ops)
    op(p, o);
  returns(p);
  for (const Value *v : p.inputs)
    uses(*v, p.place);
  for (const Op &o : p.ops)
    for (const Value *r : o.results)
      uses(*r, o.origin.node);
}

Status Verifier::run() {
  if (!isName(m.name))
    error("", "'" + m.name + "' is not a module name [G2]");
  mesh();
  for (const Symbol *s : m.symbols())
    symbol(*s);
  for (const Program *p : m.programs())
    program(*p);
  for (const Symbol *s : m.symbols())
    uses(*s, s->place);
  return std::move(errors);
}

} // namespace

Status verifyModule(const Module &m) { return Verifier(m).run(); }

} // namespace ds
