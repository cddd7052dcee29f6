// SPDX-License-Identifier: Apache-2.0
#include "runtime/Manifest.h"

#include "ir/Json.h"
#include "ir/Lexer.h"
#include "ir/SourceText.h"

#include <charconv>
#include <fmt/format.h>
#include <set>

namespace ds {

static constexpr const char *kFormat = "dsplan checkpoint 1";

static std::string hex(const std::vector<uint8_t> &bytes) {
  std::string out;
  for (uint8_t b : bytes)
    out += fmt::format("{:02x}", b);
  return out;
}

std::string printManifest(const Manifest &m) {
  std::string out = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"model\": {},\n  \"update\": {},\n  \"world_size\": {},\n"
      "  \"micro_batch\": {},\n  \"grad_accum\": {},\n  \"stage\": {},\n  \"data\": {},\n"
      "  \"seed\": {},\n  \"shuffle\": {},\n  \"scalars\": [",
      kFormat, jsonQuoted(m.model), m.update, m.world, m.microBatch, m.gradAccum, m.stage,
      jsonQuoted(m.data), m.seed, m.shuffle);
  const char *separator = "\n";
  for (const CheckpointScalar &s : m.scalars) {
    out += fmt::format(
        "{}    {{\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}], \"hex\": \"{}\"}}", separator,
        jsonQuoted(s.name), text(s.type.dtype), fmt::join(s.type.dims, ", "), hex(s.bytes));
    separator = ",\n";
  }
  out += "\n  ],\n  \"tensors\": [";
  separator = "\n";
  for (const CheckpointTensor &t : m.tensors) {
    out += fmt::format("{}    {{\"param\": {}, \"slot\": {}, \"dtype\": \"{}\", \"shape\": [{}], "
                       "\"pieces\": [",
                       separator, jsonQuoted(t.param), jsonQuoted(t.slot), text(t.dtype),
                       fmt::join(t.shape, ", "));
    for (size_t i = 0; i < t.pieces.size(); ++i)
      out += fmt::format("{}[{}, {}, {}]", i ? ", " : "", t.pieces[i].begin, t.pieces[i].end,
                         jsonQuoted(t.pieces[i].file));
    out += "]}";
    separator = ",\n";
  }
  return out + "\n  ]\n}\n";
}

namespace {

class Reader {
public:
  Reader(std::string_view text, std::string_view path) : places(text, path) {}

  StatusOr<Manifest> run(const JsonValue &root) {
    Manifest m;
    TRY_ASSIGN(std::string format, string(root, "format"));
    if (format != kFormat)
      return error(root, fmt::format("the format is {}, expected {}", jsonQuoted(format),
                                     jsonQuoted(kFormat)));
    TRY_ASSIGN(m.model, string(root, "model"));
    TRY_ASSIGN(m.data, string(root, "data"));
    TRY_ASSIGN(m.update, integer(root, "update", 0, int64_t{1} << 60));
    TRY_ASSIGN(m.world, integer(root, "world_size", 1, 1 << 20));
    TRY_ASSIGN(m.microBatch, integer(root, "micro_batch", 1, 1 << 20));
    TRY_ASSIGN(m.gradAccum, integer(root, "grad_accum", 1, 1 << 20));
    TRY_ASSIGN(m.stage, integer(root, "stage", 0, 3));
    TRY_ASSIGN(const JsonValue *seed, field(root, "seed", JsonValue::Kind::Number));
    auto r = std::from_chars(seed->text.data(), seed->text.data() + seed->text.size(), m.seed);
    if (r.ec != std::errc() || r.ptr != seed->text.data() + seed->text.size())
      return error(*seed, "expected an unsigned integer, found " + seed->shown());
    TRY_ASSIGN(const JsonValue *shuffle, field(root, "shuffle", JsonValue::Kind::Bool));
    m.shuffle = shuffle->text == "true";
    TRY_ASSIGN(const JsonValue *scalars, field(root, "scalars", JsonValue::Kind::Array));
    for (const JsonMember &e : scalars->members) {
      TRY_ASSIGN(CheckpointScalar s, scalar(e.value));
      m.scalars.push_back(std::move(s));
    }
    TRY_ASSIGN(const JsonValue *tensors, field(root, "tensors", JsonValue::Kind::Array));
    std::set<std::string> keys;
    for (const JsonMember &e : tensors->members) {
      TRY_ASSIGN(CheckpointTensor t, tensor(e.value));
      if (!keys.insert(t.key()).second)
        return error(e.value, t.key() + " is there twice");
      m.tensors.push_back(std::move(t));
    }
    return m;
  }

private:
  Status error(const JsonValue &at, std::string text) {
    return places.error(at.pos, std::move(text));
  }

  StatusOr<const JsonValue *> field(const JsonValue &of, const char *key, JsonValue::Kind kind) {
    const JsonValue *v = of.find(key);
    if (!v)
      return error(of, fmt::format("expected a key \"{}\"", key));
    if (v->kind != kind)
      return error(
          *v, fmt::format("{} is {}, which is of another type than expected", key, v->shown()));
    return v;
  }
  StatusOr<std::string> string(const JsonValue &of, const char *key) {
    TRY_ASSIGN(const JsonValue *v, field(of, key, JsonValue::Kind::String));
    return v->text;
  }
  StatusOr<int64_t> integerOf(const JsonValue &v, int64_t low, int64_t high) {
    int64_t n = 0;
    auto r = std::from_chars(v.text.data(), v.text.data() + v.text.size(), n);
    if (v.kind != JsonValue::Kind::Number || r.ec != std::errc() ||
        r.ptr != v.text.data() + v.text.size() || n < low || n > high)
      return error(v,
                   fmt::format("expected an integer in [{}, {}], found {}", low, high, v.shown()));
    return n;
  }
  StatusOr<int64_t> integer(const JsonValue &of, const char *key, int64_t low, int64_t high) {
    TRY_ASSIGN(const JsonValue *v, field(of, key, JsonValue::Kind::Number));
    return integerOf(*v, low, high);
  }
  StatusOr<Type> type(const JsonValue &of) {
    TRY_ASSIGN(std::string name, string(of, "dtype"));
    std::optional<DType> t = dtypeFromText(name);
    if (!t)
      return error(of, "unknown dtype " + jsonQuoted(name));
    TRY_ASSIGN(const JsonValue *shape, field(of, "shape", JsonValue::Kind::Array));
    Type out(*t, {});
    for (const JsonMember &d : shape->members) {
      TRY_ASSIGN(int64_t n, integerOf(d.value, 0, kMaxBytes));
      out.dims.push_back(n);
    }
    if (!checkedProduct(out.dims, 8))
      return error(*shape, "the shape is out of range");
    return out;
  }

  StatusOr<CheckpointScalar> scalar(const JsonValue &v) {
    CheckpointScalar s;
    TRY_ASSIGN(s.name, string(v, "name"));
    TRY_ASSIGN(s.type, type(v));
    TRY_ASSIGN(std::string digits, string(v, "hex"));
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
      uint8_t byte = 0;
      auto r = std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
      if (r.ec != std::errc() || r.ptr != digits.data() + i + 2)
        return error(v, s.name + ": hex holds something else than hex digits");
      s.bytes.push_back(byte);
    }
    if (digits.size() % 2 || static_cast<int64_t>(s.bytes.size()) != s.type.bytes())
      return error(v, fmt::format("{} needs {} bytes of hex", s.name, s.type.bytes()));
    return s;
  }

  StatusOr<CheckpointTensor> tensor(const JsonValue &v) {
    CheckpointTensor t;
    TRY_ASSIGN(t.param, string(v, "param"));
    TRY_ASSIGN(t.slot, string(v, "slot"));
    TRY_ASSIGN(Type shape, type(v));
    t.dtype = shape.dtype;
    t.shape = shape.dims;
    TRY_ASSIGN(const JsonValue *pieces, field(v, "pieces", JsonValue::Kind::Array));
    int64_t end = 0, elems = shape.elems();
    for (const JsonMember &e : pieces->members) {
      if (e.value.members.size() != 3 || e.value.members[2].value.kind != JsonValue::Kind::String)
        return error(e.value, "expected [begin, end, \"file\"]");
      CheckpointPiece p;
      TRY_ASSIGN(p.begin, integerOf(e.value.members[0].value, end, end));
      TRY_ASSIGN(p.end, integerOf(e.value.members[1].value, end, elems));
      p.file = e.value.members[2].value.text;
      if (p.file.empty() || p.file[0] == '.' || p.file.find('/') != std::string::npos)
        return error(e.value, "the file " + jsonQuoted(p.file) + " is not one of this folder");
      end = p.end;
      t.pieces.push_back(std::move(p));
    }
    if (end != elems)
      return error(v, fmt::format("{}: the pieces end at {} of {} elements", t.key(), end, elems));
    return t;
  }

  Lexer places; // for errors
};

} // namespace

StatusOr<Manifest> parseManifest(std::string_view text, std::string_view path) {
  TRY_ASSIGN(JsonValue root, parseJson(text, path));
  return Reader(text, path).run(root);
}

} // namespace ds
