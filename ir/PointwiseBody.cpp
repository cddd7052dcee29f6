// SPDX-License-Identifier: Apache-2.0
#include "ir/PointwiseBody.h"

#include "ir/Shapes.h"

#include <algorithm>
#include <map>

namespace ds {

bool isPointwiseStep(OpKind k) {
  switch (k) {
  case OpKind::Pointwise: // a body is flat
  case OpKind::Pow:       // its exponent has a type of its own
  case OpKind::Mod:
  case OpKind::Sin:
  case OpKind::Cos:
  case OpKind::IsNan:
  case OpKind::IsInf:
    return false;
  default:
    return info(k).trait == Trait::Elementwise;
  }
}

bool isPointwiseType(DType d) { return isFloat(d) || d == DType::Bool; }

namespace {

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string operandName(int i) { return std::string(1, static_cast<char>('a' + i)); }

class Parser {
public:
  Parser(std::string_view text, int operands) : text(text) { body.operands = operands; }

  StatusOr<PointwiseBody> run() {
    if (body.operands < 1 || body.operands > kPointwiseOperands)
      return error("takes 1 to " + std::to_string(kPointwiseOperands) + " operands, has " +
                   std::to_string(body.operands));
    used.resize(static_cast<size_t>(body.operands));
    while (isDefinition())
      TRY(definition());
    TRY_ASSIGN(int result, expression());
    blanks();
    if (at < text.size())
      return error("expected the end");
    if (result < body.operands || result + 1 != body.operands + numSteps())
      return error("the result must be a step of its own");
    used[static_cast<size_t>(result)] = true;
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i])
        return error(nameOf(static_cast<int>(i)) + " is not used");
    return std::move(body);
  }

private:
  Status error(const std::string &what) const {
    return Status::error("body, column " + std::to_string(at + 1) + ": " + what);
  }
  int numSteps() const { return static_cast<int>(body.steps.size()); }
  std::string nameOf(int value) const {
    if (value < body.operands)
      return "operand " + operandName(value);
    for (const auto &[name, v] : names)
      if (v == value)
        return name;
    return "a step";
  }

  void blanks() {
    while (at < text.size() && text[at] == ' ')
      ++at;
  }
  bool accept(char c) {
    blanks();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  Status expect(char c) {
    if (accept(c))
      return {};
    return error(std::string("expected '") + c + "'");
  }
  std::string word() {
    blanks();
    size_t begin = at;
    while (at < text.size() && isWordChar(text[at]))
      ++at;
    return std::string(text.substr(begin, at - begin));
  }

  // name '=' ..: looks ahead and leaves the place as it was.
  bool isDefinition() {
    size_t before = at;
    bool is = !word().empty() && accept('=');
    at = before;
    return is;
  }

  Status definition() {
    std::string name = word();
    bool isNumbered = name.size() > 1 && name[0] == 't' &&
                      name.find_first_not_of("0123456789", 1) == std::string::npos;
    if (!isNumbered)
      return error("'" + name + "' is no name for a step; expected t1, t2, ..");
    if (names.count(name))
      return error("'" + name + "' has a value already");
    TRY(expect('='));
    int before = numSteps();
    TRY_ASSIGN(int value, expression());
    if (numSteps() == before)
      return error("'" + name + "' must name a step of its own");
    names[name] = value;
    return expect(';');
  }

  // An operand, a name, or op(argument, .., attribute=value, ..). Returns the value's number.
  StatusOr<int> expression() {
    std::string name = word();
    if (!accept('('))
      return reference(name);
    std::optional<OpKind> kind = opFromText(name);
    if (!kind || !isPointwiseStep(*kind))
      return error("'" + name + "' is no op that a body may have");
    // Counted before the arguments: the depth of the recursion is bounded by it, too.
    if (++opened > kPointwiseSteps)
      return error("more than " + std::to_string(kPointwiseSteps) + " steps");
    PointwiseStep step{*kind, {}, 0, {}};
    do {
      if (isDefinition()) {
        TRY(attribute(step));
        continue;
      }
      if (!step.attrs.empty())
        return error("an argument behind an attribute");
      if (step.numArgs == info(*kind).maxIn)
        return error("'" + name + "' takes " + std::to_string(info(*kind).maxIn) + " arguments");
      TRY_ASSIGN(int arg, expression());
      used[static_cast<size_t>(arg)] = true;
      step.args[static_cast<size_t>(step.numArgs++)] = arg;
    } while (accept(','));
    TRY(expect(')'));
    if (step.numArgs < info(*kind).minIn)
      return error("'" + name + "' takes " + std::to_string(info(*kind).minIn) +
                   " arguments, has " + std::to_string(step.numArgs));
    TRY(completeAttrs(step.attrs, info(*kind).attrs, info(*kind).text));
    body.steps.push_back(std::move(step));
    used.push_back(false);
    return body.operands + numSteps() - 1;
  }

  StatusOr<int> reference(const std::string &name) {
    if (auto it = names.find(name); it != names.end())
      return it->second;
    int operand = name.size() == 1 ? name[0] - 'a' : -1;
    if (operand < 0 || operand >= body.operands)
      return error(name.empty() ? "expected an operand, a name or an op"
                                : "'" + name + "' is neither one of the " +
                                      std::to_string(body.operands) + " operands nor defined");
    return operand;
  }

  // Kinds that elementwise ops have: b and s.
  Status attribute(PointwiseStep &step) {
    std::string name = word();
    TRY(expect('='));
    std::string value = word();
    if (step.attrs.find(name))
      return error("'" + name + "' is given twice");
    bool isFlag = value == "true" || value == "false";
    step.attrs.set(name, isFlag ? AttrValue(value == "true") : AttrValue(value));
    return {};
  }

  std::string_view text;
  size_t at = 0;
  int opened = 0;
  PointwiseBody body;
  std::map<std::string, int> names;
  std::vector<bool> used; // of operands, then of steps
};

class Writer {
public:
  explicit Writer(const PointwiseBody &b) : body(b), uses(b.steps.size()), names(b.steps.size()) {
    for (const PointwiseStep &s : body.steps)
      for (int i = 0; i < s.numArgs; ++i)
        if (s.args[static_cast<size_t>(i)] >= body.operands)
          ++uses[static_cast<size_t>(s.args[static_cast<size_t>(i)] - body.operands)];
  }
  std::string run() {
    std::string last = step(body.steps.size() - 1);
    return definitions + last;
  }

private:
  std::string step(size_t i) {
    const PointwiseStep &s = body.steps[i];
    std::string out = std::string(info(s.kind).text) + "(";
    for (int k = 0; k < s.numArgs; ++k)
      out += (k ? ", " : "") + value(s.args[static_cast<size_t>(k)]);
    for (const AttrSpec &spec : info(s.kind).attrs) {
      const AttrValue *v = s.attrs.find(spec.name);
      if (!v || (spec.def && *v == *spec.def) || (!spec.def && *v == AttrValue(false)))
        continue;
      const std::string *word = std::get_if<std::string>(v);
      out += ", " + spec.name + "=" + (word ? *word : attrText(*v));
    }
    return out + ")";
  }
  std::string value(int v) {
    if (v < body.operands)
      return operandName(v);
    auto i = static_cast<size_t>(v - body.operands);
    if (uses[i] < 2)
      return step(i);
    if (names[i].empty()) {
      std::string text = step(i); // may define others before it
      names[i] = "t" + std::to_string(++defined);
      definitions += names[i] + " = " + text + "; ";
    }
    return names[i];
  }
  const PointwiseBody &body;
  std::vector<int> uses;
  std::vector<std::string> names;
  std::string definitions;
  int defined = 0;
};

} // namespace

StatusOr<PointwiseBody> parsePointwise(std::string_view text, int operands) {
  return Parser(text, operands).run();
}

std::string pointwiseText(const PointwiseBody &body) { return Writer(body).run(); }

StatusOr<std::vector<Type>> pointwiseTypes(const PointwiseBody &body, std::span<const Type> in) {
  static const std::vector<std::pair<std::string, int64_t>> noMesh;
  std::vector<Type> values(in.begin(), in.end());
  for (const PointwiseStep &s : body.steps) {
    std::vector<Type> args, result;
    for (int i = 0; i < s.numArgs; ++i)
      args.push_back(values[static_cast<size_t>(s.args[static_cast<size_t>(i)])]);
    TRY(inferShape({s.kind, args, s.attrs, noMesh, result}));
    values.push_back(result[0]);
  }
  auto is = [](bool (*f)(DType)) { return [f](const Type &t) { return f(t.dtype); }; };
  auto wrong = std::find_if_not(values.begin(), values.end(), is(isPointwiseType));
  if (wrong != values.end())
    return Status::error("a value is " + std::string(text(wrong->dtype)) +
                         ", expected floats and bools");
  auto isF64 = [](DType d) { return d == DType::F64; };
  auto isNarrow = [](DType d) { return isFloat(d) && d != DType::F64; };
  if (std::any_of(values.begin(), values.end(), is(isF64)) &&
      std::any_of(values.begin(), values.end(), is(isNarrow)))
    return Status::error("f64 and narrower floats do not mix");
  values.erase(values.begin(), values.begin() + static_cast<int64_t>(in.size()));
  return values;
}

} // namespace ds
