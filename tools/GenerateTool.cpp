// SPDX-License-Identifier: Apache-2.0
#include "tools/GenerateTool.h"

#include "ir/Json.h"
#include "ir/Philox.h"
#include "runtime/Convert.h"
#include "tools/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cmath>

namespace ds {

StatusOr<Vocabulary> Vocabulary::read(const std::string &path) {
  TRY_ASSIGN(std::string json, readInput(path));
  TRY_ASSIGN(JsonValue root, parseJson(json, path));
  const JsonValue *chars = root.find("chars");
  Vocabulary v;
  v.path = path;
  bool ok = chars && chars->kind == JsonValue::Kind::Array && !chars->members.empty();
  for (size_t i = 0; ok && i < chars->members.size(); ++i) {
    const JsonValue &c = chars->members[i].value;
    ok = c.kind == JsonValue::Kind::String && !c.text.empty();
    v.texts.push_back(c.text);
  }
  if (!ok)
    return Status::error("expected {\"chars\": [...]}, the text of each token").at(path);
  return v;
}

StatusOr<std::vector<int64_t>> Vocabulary::tokens(const std::string &text) const {
  std::vector<int64_t> out;
  for (size_t at = 0; at < text.size();) {
    int64_t best = -1;
    for (size_t i = 0; i < texts.size(); ++i)
      if (text.compare(at, texts[i].size(), texts[i]) == 0 &&
          (best < 0 || texts[i].size() > texts[static_cast<size_t>(best)].size()))
        best = static_cast<int64_t>(i);
    if (best < 0)
      return Status::error("--prompt: no token begins with '" + text.substr(at, 8) + "', byte " +
                           std::to_string(at) + " of the text")
          .at(path);
    out.push_back(best);
    at += texts[static_cast<size_t>(best)].size();
  }
  return out;
}

namespace {

// The one input and the logits of a language model.
struct Shape {
  std::string input;
  Type tokens; // [rows, window]
  int64_t classes = 0;
  size_t logits = 0; // among the results
};

StatusOr<Shape> shapeOf(const Schedule &s) {
  std::string inputs, outputs;
  Shape out;
  for (const InputInfo &in : s.inputs) {
    out.input = in.name;
    out.tokens = s.persistent[static_cast<size_t>(s.findPersistent(in.name))].type;
    inputs += (inputs.empty() ? "" : ", ") + in.name + " : " + out.tokens.str();
  }
  if (s.inputs.size() != 1 || !isInt(out.tokens.dtype) || out.tokens.rank() != 2 ||
      out.tokens.elems() == 0)
    return Status::error("--generate needs a model with one input, token numbers [rows, window]; "
                         "this one has " +
                         (inputs.empty() ? "none" : inputs))
        .note("--const and --bind make constants of other inputs");
  const SchedProgram &p = *s.program("forward");
  for (size_t i = 0; i < p.returns.size(); ++i) {
    const Type &t = *resolve(s, p, p.returns[i]).type;
    outputs += (outputs.empty() ? "" : ", ") + p.returnNames[i] + " : " + t.str();
    if (out.classes == 0 && isFloat(t.dtype) && t.rank() == 3 && t.dims[0] == out.tokens.dims[0] &&
        t.dims[1] == out.tokens.dims[1] && t.dims[2] > 0) {
      out.classes = t.dims[2];
      out.logits = i;
    }
  }
  if (out.classes == 0)
    return Status::error("--generate needs logits " + std::string("[rows, window, tokens]") +
                         " as an output; the model's are " + outputs);
  return out;
}

StatusOr<std::vector<int64_t>> numbers(const std::string &text) {
  std::vector<int64_t> out;
  llvm::SmallVector<llvm::StringRef, 16> parts;
  llvm::StringRef(text).split(parts, ',');
  for (llvm::StringRef p : parts) {
    int64_t v = 0;
    if (p.trim().getAsInteger(10, v))
      return Status::error("--prompt '" + text +
                           "': expected numbers of tokens, as 1,2,3; text "
                           "needs --vocab");
    out.push_back(v);
  }
  return out;
}

int64_t choose(const Array &logits, int64_t first, int64_t classes,
               const std::optional<uint64_t> &seed, uint64_t step) {
  std::vector<double> v(static_cast<size_t>(classes));
  for (int64_t c = 0; c < classes; ++c)
    v[static_cast<size_t>(c)] = toDouble(logits.dtype, logits.bytes.data(), first + c);
  auto best = std::max_element(v.begin(), v.end());
  if (!seed)
    return best - v.begin();
  double total = 0, top = *best;
  for (double &x : v)
    total += x = std::exp(x - top);
  double at = static_cast<double>(Philox{*seed}.bits(step) >> 11) * 0x1p-53 * total;
  for (int64_t c = 0; c < classes; ++c)
    if ((at -= v[static_cast<size_t>(c)]) < 0)
      return c;
  return best - v.begin(); // rounding
}

} // namespace

StatusOr<std::string> generate(const GenerateRequest &r, Forward &model) {
  TRY_ASSIGN(Shape shape, shapeOf(model.schedule()));
  StatusOr<std::vector<int64_t>> prompt =
      r.vocabulary ? r.vocabulary->tokens(r.prompt) : numbers(r.prompt);
  TRY_ASSIGN(std::vector<int64_t> tokens, std::move(prompt));
  if (tokens.empty())
    return Status::error("--generate needs a --prompt of at least one token");
  if (r.vocabulary && static_cast<int64_t>(r.vocabulary->size()) != shape.classes)
    return Status::error("the vocabulary has " + std::to_string(r.vocabulary->size()) +
                         " tokens, the model's logits " + std::to_string(shape.classes));
  for (int64_t t : tokens)
    if (t < 0 || t >= shape.classes)
      return Status::error("--prompt: token " + std::to_string(t) + " is not below " +
                           std::to_string(shape.classes));
  int64_t window = shape.tokens.dims[1], size = byteSize(shape.tokens.dtype);
  std::map<std::string, Array> feed;
  for (int64_t step = 0; step < r.count; ++step) {
    auto have = std::min<int64_t>(static_cast<int64_t>(tokens.size()), window);
    Array a{shape.tokens.dtype, shape.tokens.dims,
            std::string(static_cast<size_t>(shape.tokens.bytes()), '\0')};
    convert(a.dtype, a.bytes.data(), DType::I64, &tokens[tokens.size() - static_cast<size_t>(have)],
            have);
    for (int64_t row = 1; row < shape.tokens.dims[0]; ++row)
      a.bytes.replace(static_cast<size_t>(row * window * size), static_cast<size_t>(window * size),
                      a.bytes, 0, static_cast<size_t>(window * size));
    feed[shape.input] = std::move(a);
    TRY_ASSIGN(auto results, model.run(feed));
    tokens.push_back(choose(results[shape.logits].second, (have - 1) * shape.classes, shape.classes,
                            r.seed, static_cast<uint64_t>(step)));
  }
  std::string out;
  for (int64_t t : tokens)
    out += r.vocabulary ? r.vocabulary->text(t) : (out.empty() ? "" : ",") + std::to_string(t);
  return out;
}

} // namespace ds
