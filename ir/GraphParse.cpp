// SPDX-License-Identifier: Apache-2.0
//
// Reads .dsir text (docs/ir.md). One op per step, no recursion; every name is looked up and every op is typed
// as it is read, so that an error has the place of the token that is wrong. Stops at the first error.
#include "ir/GraphBuilder.h"
#include "ir/GraphSyntax.h"
#include "ir/GraphText.h"
#include "ir/SourceText.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace ds {

namespace {

constexpr int64_t kMaxRanks = int64_t(1) << 20; // product of the mesh's axes

// An op as its line says it, before it is checked.
struct OpLine {
  size_t pos = 0;     // start of the line
  size_t kindPos = 0; // the mnemonic
  OpKind kind = OpKind::Neg;
  std::vector<std::string> names;
  std::vector<size_t> namePos, typePos;
  llvm::SmallVector<Value *, 8> operands;
  llvm::SmallVector<Symbol *, 4> bound;
  std::vector<int64_t> at;
  Attrs attrs;
  std::vector<Type> types; // of the named results
};

class Parser {
public:
  Parser(std::string_view text, std::string_view path) : lex(text, path) {}
  StatusOr<std::unique_ptr<Module>> run();

private:
  Status header();
  Status mesh();
  Status item();
  Status symbol(SymbolKind k);
  Status segments(Symbol &s);
  Status program(bool isFunc);
  Status inputs();
  Status body();
  Status returns();

  Status op();
  Status resultNames(OpLine &o);
  Status mnemonic(OpLine &o);
  Status operands(OpLine &o);
  StatusOr<Value *> operand();
  Status bindings(OpLine &o);
  Status resultTypes(OpLine &o);
  Status finishAttrs(OpLine &o);
  Status makeOp(OpLine &o);

  StatusOr<Type> type();
  StatusOr<Symbol *> symbolRef();
  Status freeName(size_t pos, const std::string &name);

  Lexer lex;
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Program *p = nullptr;
  Phase phase = Phase::Forward;
  llvm::DenseMap<const Symbol *, size_t> boundAt; // in the current program
};

std::string hint(std::string_view word, const std::vector<std::string> &candidates,
                 const char *sigil = "") {
  std::string near = nearest(word, candidates);
  return near.empty() ? "" : std::string("; did you mean '") + sigil + near + "'?";
}

StatusOr<Type> Parser::type() {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(Type t, parseType(lex));
  if (std::string problem = typeProblem(t, *m); !problem.empty())
    return lex.error(pos, t.str() + ": " + problem);
  return t;
}

StatusOr<Symbol *> Parser::symbolRef() {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.global());
  if (Symbol *s = m->symbol(name))
    return s;
  std::vector<std::string> known;
  for (Symbol *s : m->symbols())
    known.push_back(s->name);
  return lex.error(pos, "@" + name + " is not declared" + hint(name, known, "@"));
}

// -- module and symbols -----------------------------------------------------------------------------

Status Parser::mesh() {
  int64_t ranks = 1;
  TRY(lex.expect("("));
  do {
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(std::string axis, lex.name());
    if (llvm::any_of(m->mesh, [&](auto &a) { return a.first == axis; }))
      return lex.error(pos, "mesh axis '" + axis + "' is given twice");
    TRY(lex.expect("="));
    pos = lex.peek().pos;
    TRY_ASSIGN(int64_t size, lex.integer());
    if (size < 1 || size > kMaxRanks / ranks)
      return lex.error(pos, "a mesh has 1 to 2^20 ranks, found axis '" + axis + "' of size " +
                                std::to_string(size));
    ranks *= size;
    m->mesh.emplace_back(std::move(axis), size);
  } while (lex.accept(","));
  return lex.expect(")");
}

Status Parser::header() {
  TRY(lex.expect("module"));
  TRY_ASSIGN(m->name, lex.global());
  if (lex.accept("mesh"))
    TRY(mesh());
  return lex.expect("{");
}

Status Parser::segments(Symbol &s) {
  TRY(lex.expect("{"));
  while (!lex.at("}")) {
    Segment g;
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(g.param, lex.global());
    TRY(lex.expect("at"));
    TRY_ASSIGN(g.at, lex.integer());
    TRY(lex.expect(":"));
    TRY_ASSIGN(g.shape, parseInts(lex));
    if (std::string problem = typeProblem(Type(s.type.dtype, g.shape), *m); !problem.empty())
      return lex.error(pos, "@" + g.param + ": " + problem);
    if (lex.accept("group")) {
      TRY_ASSIGN(g.group, lex.integer());
    }
    TRY_ASSIGN(g.source, parseSource(lex, s.type.dtype));
    TRY_ASSIGN(Attrs attrs, parseAttrs(lex, segmentAttrs(), "@" + g.param));
    g.exportName = attrs.s("export");
    s.segments.push_back(std::move(g));
    lex.accept(";");
  }
  return lex.expect("}");
}

Status Parser::symbol(SymbolKind k) {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.global());
  if (Symbol *other = m->symbol(name))
    return lex.error(pos, "@" + name + " is declared twice")
        .note("the first one is at " + other->place);
  TRY(lex.expect(":"));
  TRY_ASSIGN(Type t, type());
  Symbol *s = m->addSymbol(k, name, std::move(t));
  s->place = lex.place(pos);
  TRY_ASSIGN(s->source, parseSource(lex, s->type.dtype));
  // A brace of a bucket opens its attributes if a word follows, else its segments.
  Lexer ahead = lex;
  bool hasAttrs = ahead.accept("{") && (k != SymbolKind::Bucket || ahead.peek().kind == Tok::Name);
  if (hasAttrs) {
    TRY_ASSIGN(Attrs attrs, parseAttrs(lex, symbolAttrs(), "@" + name));
    s->exportName = attrs.s("export");
    s->module = attrs.s("module");
    s->running = attrs.flag("running");
    s->trainable = !attrs.flag("frozen") && !s->running;
    s->resident = attrs.flag("resident");
  }
  return k == SymbolKind::Bucket ? segments(*s) : Status();
}

Status Parser::item() {
  constexpr SymbolKind kinds[] = {SymbolKind::Param, SymbolKind::Bucket, SymbolKind::State,
                                  SymbolKind::Accum, SymbolKind::Scalar, SymbolKind::Const};
  std::vector<std::string> words;
  for (SymbolKind k : kinds) {
    words.push_back(text(k).str());
    if (lex.accept(words.back()))
      return symbol(k);
  }
  if (lex.accept("func"))
    return program(/*isFunc=*/true);
  if (lex.accept("program"))
    return program(/*isFunc=*/false);
  words.insert(words.end(), {"func", "program"});
  const Token &t = lex.peek();
  if (t.kind == Tok::Name)
    return lex.error(t.pos, "'" + std::string(t.text) + "' does not start a declaration" +
                                hint(t.text, words));
  return lex.expect("}");
}

// -- programs ---------------------------------------------------------------------------------------

Status Parser::freeName(size_t pos, const std::string &name) {
  Value *other = p->find(name);
  if (!other)
    return {};
  Status s = lex.error(pos, "%" + name + " is defined twice in @" + p->name);
  return other->def ? std::move(s).note("the first one is at " + other->def->origin.node)
                    : std::move(s).note("the first one is an input");
}

Status Parser::inputs() {
  TRY(lex.expect("("));
  while (!lex.at(")")) {
    if (!p->inputs.empty())
      TRY(lex.expect(","));
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(std::string name, lex.local());
    TRY(freeName(pos, name));
    TRY(lex.expect(":"));
    TRY_ASSIGN(Type t, type());
    Value *v = m->addInput(*p, std::move(name), std::move(t));
    TRY_ASSIGN(v->input, parseInputMeta(lex));
  }
  return lex.expect(")");
}

Status Parser::program(bool isFunc) {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.global());
  if (Program *other = m->program(name))
    return lex.error(pos, "program @" + name + " is defined twice")
        .note("the first one is at " + other->place);
  p = m->addProgram(std::move(name));
  p->isFunc = isFunc;
  p->place = lex.place(pos);
  phase = firstPhase(*p);
  boundAt.clear();
  TRY(inputs());
  TRY(lex.expect("{"));
  TRY(body());
  return lex.expect("}");
}

Status Parser::body() {
  while (!lex.at("}")) {
    if (lex.accept("return"))
      return returns();
    bool label = false;
    for (Phase f : {Phase::Forward, Phase::Backward, Phase::Update})
      if (lex.accept(std::string_view(text(f)))) {
        TRY(lex.expect(":"));
        phase = f;
        label = true;
        break;
      }
    if (!label)
      TRY(op());
  }
  return {};
}

Status Parser::returns() {
  do {
    if (lex.peek().kind != Tok::Local) {
      TRY_ASSIGN(std::string ignored, lex.local()); // the error says what was expected
    }
    TRY_ASSIGN(Value * v, operand());
    p->returns.push_back(v);
  } while (lex.accept(","));
  return {};
}

// -- ops --------------------------------------------------------------------------------------------

Status Parser::resultNames(OpLine &o) {
  o.pos = lex.peek().pos;
  if (lex.peek().kind != Tok::Local)
    return {};
  do {
    o.namePos.push_back(lex.peek().pos);
    TRY_ASSIGN(std::string name, lex.local());
    TRY(freeName(o.namePos.back(), name));
    if (llvm::is_contained(o.names, name))
      return lex.error(o.namePos.back(), "%" + name + " is defined twice by one op");
    o.names.push_back(std::move(name));
  } while (lex.accept(","));
  return lex.expect("=");
}

Status Parser::mnemonic(OpLine &o) {
  o.kindPos = lex.peek().pos;
  TRY_ASSIGN(std::string word, lex.name());
  std::optional<OpKind> k = opFromText(word);
  if (!k)
    return lex.error(o.kindPos, "unknown op '" + word + "'" + hint(word, opTexts()));
  o.kind = *k;
  return {};
}

StatusOr<Value *> Parser::operand() {
  if (lex.peek().kind == Tok::Global) {
    TRY_ASSIGN(Symbol * s, symbolRef());
    return static_cast<Value *>(s);
  }
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.local());
  if (Value *v = p->find(name))
    return v;
  std::vector<std::string> known;
  for (Value *v : p->inputs)
    known.push_back(v->name);
  for (Op &other : p->ops)
    for (int i = 0; i < other.numNamed(); ++i)
      known.push_back(other.results[i]->name);
  return lex.error(pos, "%" + name + " is not defined before its use" + hint(name, known, "%"));
}

Status Parser::operands(OpLine &o) {
  Tok k = lex.peek().kind;
  if (k == Tok::Local || k == Tok::Global) {
    do {
      TRY_ASSIGN(Value * v, operand());
      o.operands.push_back(v);
      if (hasOperandOffsets(o.kind)) {
        TRY(lex.expect("at"));
        TRY_ASSIGN(int64_t at, lex.integer());
        o.at.push_back(at);
      }
    } while (lex.accept(","));
  }
  if (!hasOver(o.kind))
    return {};
  std::string axes;
  TRY(lex.expect("over"));
  do {
    TRY_ASSIGN(std::string axis, lex.name());
    axes += (axes.empty() ? "" : ",") + axis;
  } while (lex.accept(","));
  o.attrs.set("over", axes);
  return {};
}

Status Parser::bindings(OpLine &o) {
  if (!lex.accept("->"))
    return {};
  do {
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(Symbol * s, symbolRef());
    auto [it, isNew] = boundAt.try_emplace(s, pos);
    if (!isNew)
      return lex.error(pos, "@" + s->name + " is bound twice in @" + p->name + " [G5]")
          .note("the first binding is at " + lex.place(it->second));
    o.bound.push_back(s);
  } while (lex.accept(","));
  return {};
}

Status Parser::resultTypes(OpLine &o) {
  if (o.names.empty())
    return {};
  TRY(lex.expect(":"));
  do {
    o.typePos.push_back(lex.peek().pos);
    TRY_ASSIGN(Type t, type());
    o.types.push_back(std::move(t));
  } while (lex.accept(","));
  if (o.types.size() != o.names.size())
    return lex.error(o.typePos[0], std::to_string(o.names.size()) + " named results, but " +
                                       std::to_string(o.types.size()) + " types");
  return {};
}

// Puts together the attributes that stand outside the braces, and completes the set.
Status Parser::finishAttrs(OpLine &o) {
  if (hasOperandOffsets(o.kind)) {
    if (o.kind == OpKind::View)
      o.attrs.set("at", o.at.empty() ? int64_t(0) : o.at[0]);
    else
      o.attrs.set("at", o.at);
  }
  const Type *shown = !o.types.empty()   ? &o.types[0]
                      : !o.bound.empty() ? &o.bound[0]->type
                                         : nullptr;
  for (const TypeAttr &a : typeAttrs(o.kind))
    if (shown)
      o.attrs.set(a.name, shownValue(a.from, *shown));
  return completeAttrs(o.attrs, info(o.kind).attrs, info(o.kind).text);
}

Status Parser::makeOp(OpLine &o) {
  auto here = [&](Status s) -> Status {
    if (s.ok())
      return s;
    Status out;
    for (const ErrorEntry &e : s.entries())
      out.merge(lex.error(o.kindPos, e.text));
    std::string types;
    for (Value *v : o.operands)
      types += (types.empty() ? "" : ", ") + std::string(v->isSymbol() ? "@" : "%") + v->name +
               " is " + v->type.str();
    return types.empty() ? std::move(out) : std::move(out).note(types);
  };
  TRY(here(finishAttrs(o)));
  const OpInfo &op = info(o.kind);
  size_t given = o.names.size() + o.bound.size();
  if (given != static_cast<size_t>(op.outs))
    return lex.error(o.kindPos, std::string(op.text) + ": number of results is " +
                                    std::to_string(op.outs) + ", but " + std::to_string(given) +
                                    " are named or bound [G3]");
  llvm::SmallVector<Type, 8> operandTypes, inferred;
  for (Value *v : o.operands)
    operandTypes.push_back(v->type);
  TRY(here(inferTypes(o.kind, operandTypes, o.attrs, *m, inferred, o.bound)));
  for (size_t i = 0; i < o.types.size(); ++i)
    if (o.types[i] != inferred[i])
      return lex.error(o.typePos[i], std::string(op.text) + ": %" + o.names[i] +
                                         " is declared as " + o.types[i].str() + ", but is " +
                                         inferred[i].str() + " [G4]");
  p->append(m->createOp(*p, o.kind, o.operands, o.names, inferred, o.bound, std::move(o.attrs),
                        phase, Origin{lex.place(o.pos), "", ""}));
  return {};
}

Status Parser::op() {
  OpLine o;
  TRY(resultNames(o));
  TRY(mnemonic(o));
  TRY(operands(o));
  TRY(bindings(o));
  TRY_ASSIGN(Attrs braces, parseAttrs(lex, braceAttrs(o.kind), info(o.kind).text));
  for (auto &[name, value] : braces)
    o.attrs.set(name, value);
  TRY(resultTypes(o));
  return makeOp(o);
}

StatusOr<std::unique_ptr<Module>> Parser::run() {
  TRY(header());
  while (!lex.at("}"))
    TRY(item());
  TRY(lex.expect("}"));
  if (lex.peek().kind != Tok::Eof)
    return lex.errorHere("expected the end of the file behind the module");
  return std::move(m);
}

} // namespace

StatusOr<std::unique_ptr<Module>> parseModule(std::string_view text, std::string_view path) {
  return Parser(text, path).run();
}

} // namespace ds
