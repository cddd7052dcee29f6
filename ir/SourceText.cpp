// SPDX-License-Identifier: Apache-2.0
#include "ir/SourceText.h"

#include "ir/Shapes.h"

#include <algorithm>

namespace ds {

std::optional<int64_t> checkedProduct(const std::vector<int64_t> &dims, int64_t unit) {
  int64_t n = unit;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0)
      return std::nullopt;
    if (d == 0)
      zero = true;
    else if (__builtin_mul_overflow(n, d, &n) || n > kMaxBytes)
      return std::nullopt; // also if another dimension is 0: partial products must not overflow
  }
  return zero ? 0 : n;
}

StatusOr<std::vector<int64_t>> parseInts(Lexer &lex) {
  std::vector<int64_t> v;
  TRY(lex.expect("["));
  while (!lex.at("]")) {
    if (!v.empty())
      TRY(lex.expect(","));
    TRY_ASSIGN(int64_t n, lex.integer());
    v.push_back(n);
  }
  TRY(lex.expect("]"));
  return v;
}

static StatusOr<std::string> parseAxes(Lexer &lex) {
  std::string axes;
  TRY(lex.expect("("));
  do {
    TRY_ASSIGN(std::string axis, lex.name());
    axes += (axes.empty() ? "" : ",") + axis;
  } while (lex.accept(","));
  TRY(lex.expect(")"));
  return axes;
}

StatusOr<Type> parseType(Lexer &lex) {
  Type t;
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.name());
  std::optional<DType> dtype = dtypeFromText(name);
  if (!dtype)
    return lex.error(pos, "expected an element type such as f32, found '" + name + "'");
  t.dtype = *dtype;
  pos = lex.peek().pos;
  TRY_ASSIGN(t.dims, parseInts(lex));
  if (t.rank() > kMaxRank)
    return lex.error(pos, "a type has at most " + std::to_string(kMaxRank) + " dimensions, found " +
                              std::to_string(t.dims.size()));
  if (std::optional<int64_t> elems = checkedProduct(t.dims); !elems || *elems > kMaxElems)
    return lex.error(pos, "dimensions must be >= 0 and hold at most 2^48 elements, found " +
                              dimsText(t.dims));
  for (Placement p : {Placement::Local, Placement::Repl, Placement::Shard, Placement::Partial})
    if (lex.accept(text(p))) {
      t.placement = p;
      if (t.isShard() || t.isPartial()) {
        TRY_ASSIGN(t.axes, parseAxes(lex));
      }
      break;
    }
  for (Space s : {Space::Device, Space::Host, Space::Nvme})
    if (lex.accept(text(s))) {
      t.space = s;
      break;
    }
  return t;
}

static StatusOr<AttrValue> parseAttrValue(Lexer &lex, char kind) {
  switch (kind) {
  case 'b':
    if (!lex.accept("="))
      return AttrValue(true);
    if (lex.accept("true"))
      return AttrValue(true);
    if (lex.accept("false"))
      return AttrValue(false);
    return lex.errorHere("expected 'true' or 'false', found '" + std::string(lex.peek().text) +
                         "'");
  case 'i': {
    TRY(lex.expect("="));
    TRY_ASSIGN(int64_t v, lex.integer());
    return AttrValue(v);
  }
  case 'f': {
    TRY(lex.expect("="));
    TRY_ASSIGN(double v, lex.number());
    return AttrValue(v);
  }
  case 's': {
    TRY(lex.expect("="));
    TRY_ASSIGN(std::string v, lex.string());
    return AttrValue(std::move(v));
  }
  default: {
    TRY(lex.expect("="));
    TRY_ASSIGN(std::vector<int64_t> v, parseInts(lex));
    return AttrValue(std::move(v));
  }
  }
}

StatusOr<Attrs> parseAttrs(Lexer &lex, const std::vector<AttrSpec> &specs,
                           std::string_view subject) {
  Attrs attrs;
  if (!lex.accept("{"))
    return attrs;
  bool first = true;
  while (!lex.at("}")) {
    if (!first)
      TRY(lex.expect(","));
    first = false;
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(std::string name, lex.name());
    auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const AttrSpec &s) { return s.name == name; });
    if (spec == specs.end()) {
      std::vector<std::string> known;
      for (const AttrSpec &s : specs)
        known.push_back(s.name);
      std::string near = nearest(name, known);
      return lex.error(pos, std::string(subject) + ": unknown attribute '" + name + "'" +
                                (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
    if (attrs.find(name))
      return lex.error(pos, std::string(subject) + ": attribute '" + name + "' is given twice");
    TRY_ASSIGN(AttrValue v, parseAttrValue(lex, spec->kind));
    attrs.set(name, std::move(v));
  }
  TRY(lex.expect("}"));
  return attrs;
}

// -- sources ----------------------------------------------------------------------------------------

std::string sourceText(const Source &s, DType declared) {
  switch (s.kind) {
  case Source::Kind::Zeros:
    return "";
  case Source::Kind::File:
    return "from " + quoted(s.path) + " at " + std::to_string(s.offset) + " as " +
           std::string(text(s.stored));
  case Source::Kind::Normal: // seeds from 2^63 on print as negative numbers and read back the same
    return "init normal(" + std::to_string(static_cast<int64_t>(s.seed)) + "," +
           doubleText(s.value) + ")";
  case Source::Kind::Splat:
    return "= " + doubleText(s.value);
  case Source::Kind::Hex: {
    std::string out = "= hex \"";
    for (unsigned char c : s.bytes) {
      out += "0123456789abcdef"[c >> 4];
      out += "0123456789abcdef"[c & 15];
    }
    return out + (s.stored == declared ? "\"" : "\" as " + std::string(text(s.stored)));
  }
  }
  return "";
}

/// [as f32]
static StatusOr<DType> parseStored(Lexer &lex, DType declared) {
  if (!lex.accept("as"))
    return declared;
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, lex.name());
  std::optional<DType> dtype = dtypeFromText(name);
  if (!dtype)
    return lex.error(pos, "expected an element type such as f32, found '" + name + "'");
  return *dtype;
}

/// Relative, non-empty, without ".." components or NUL bytes.
static bool staysInside(std::string_view path) {
  if (path.empty() || path[0] == '/' || path.find('\0') != path.npos)
    return false;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..")
      return false;
    begin = end + 1;
  }
  return true;
}

static StatusOr<Source> parseFile(Lexer &lex, DType declared) {
  Source s;
  s.kind = Source::Kind::File;
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(s.path, lex.string());
  if (!staysInside(s.path))
    return lex.error(pos, "the path " + quoted(s.path) +
                              " must be relative and stay inside the model's directory");
  TRY(lex.expect("at"));
  pos = lex.peek().pos;
  TRY_ASSIGN(s.offset, lex.integer());
  if (s.offset < 0 || s.offset > kMaxBytes)
    return lex.error(pos, "a file offset must lie in [0, 2^60], found " + std::to_string(s.offset));
  TRY_ASSIGN(s.stored, parseStored(lex, declared));
  return s;
}

static int hexDigit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

static StatusOr<Source> parseHex(Lexer &lex, DType declared) {
  Source s;
  s.kind = Source::Kind::Hex;
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string digits, lex.string());
  if (digits.size() % 2)
    return lex.error(pos, "hex data has two digits for each byte, found " +
                              std::to_string(digits.size()) + " digits");
  s.bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); i += 2) {
    int high = hexDigit(digits[i]), low = hexDigit(digits[i + 1]);
    if (high < 0 || low < 0)
      return lex.error(pos, "expected hex digits, found '" + digits.substr(i, 2) + "'");
    s.bytes += static_cast<char>(high * 16 + low);
  }
  TRY_ASSIGN(s.stored, parseStored(lex, declared));
  return s;
}

StatusOr<Source> parseSource(Lexer &lex, DType declared) {
  Source s;
  if (lex.accept("from"))
    return parseFile(lex, declared);
  if (lex.accept("init")) {
    s.kind = Source::Kind::Normal;
    TRY(lex.expect("normal"));
    TRY(lex.expect("("));
    TRY_ASSIGN(int64_t seed, lex.integer());
    s.seed = static_cast<uint64_t>(seed);
    TRY(lex.expect(","));
    TRY_ASSIGN(s.value, lex.number());
    TRY(lex.expect(")"));
    return s;
  }
  if (lex.accept("=")) {
    if (lex.accept("hex"))
      return parseHex(lex, declared);
    s.kind = Source::Kind::Splat;
    TRY_ASSIGN(s.value, lex.number());
  }
  return s;
}

// -- inputs -----------------------------------------------------------------------------------------

std::string inputMetaText(const InputMeta &m) {
  std::string s;
  auto add = [&](std::string_view word) { s += (s.empty() ? "" : " ") + std::string(word); };
  if (m.role == InputMeta::Role::Label)
    add("label");
  if (m.role == InputMeta::Role::Count)
    add(m.countOf.empty() ? "count" : "count of " + m.countOf);
  if (m.role == InputMeta::Role::Rng)
    add("rng");
  if (m.hasIgnore)
    add("ignore " + std::to_string(m.ignoreIndex));
  if (m.skip)
    add("skip " + std::to_string(m.skip));
  if (m.bound)
    add("below " + std::to_string(m.bound));
  return s;
}

StatusOr<InputMeta> parseInputMeta(Lexer &lex) {
  InputMeta m;
  if (lex.accept("label")) {
    m.role = InputMeta::Role::Label;
  } else if (lex.accept("count")) {
    m.role = InputMeta::Role::Count;
    if (lex.accept("of")) {
      TRY_ASSIGN(m.countOf, lex.name());
    }
  } else if (lex.accept("rng")) {
    m.role = InputMeta::Role::Rng;
    return m;
  }
  if (lex.accept("ignore")) {
    m.hasIgnore = true;
    TRY_ASSIGN(m.ignoreIndex, lex.integer());
  }
  size_t pos = lex.peek().pos;
  if (m.role != InputMeta::Role::Data && lex.accept("skip")) {
    TRY_ASSIGN(m.skip, lex.integer());
    if (m.skip < 1)
      return lex.error(pos, "a row skips at least 1 element, found " + std::to_string(m.skip));
  }
  pos = lex.peek().pos;
  if (lex.accept("below")) {
    TRY_ASSIGN(m.bound, lex.integer());
    if (m.bound < 1)
      return lex.error(pos, "a bound must be at least 1, found " + std::to_string(m.bound));
  }
  return m;
}

} // namespace ds
