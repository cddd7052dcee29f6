// SPDX-License-Identifier: Apache-2.0
#include "frontend/ConfigTable.h"

#include "frontend/ConfigFile.h"
#include "frontend/Units.h"
#include "ir/Json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace ds {

using Kind = ConfigText::Kind;

// -- text -----------------------------------------------------------------------------------------

static std::optional<double> parseReal(std::string_view v) {
  double n = 0;
  auto r = std::from_chars(v.data(), v.data() + v.size(), n);
  if (r.ec != std::errc() || r.ptr != v.data() + v.size() || !std::isfinite(n))
    return std::nullopt;
  return n;
}

// 12, 5e8 and 2.0 are integers; so is nothing that a double cannot hold exactly.
static std::optional<int64_t> parseInteger(std::string_view v) {
  int64_t n = 0;
  auto r = std::from_chars(v.data(), v.data() + v.size(), n);
  if (r.ec == std::errc() && r.ptr == v.data() + v.size())
    return n;
  constexpr double exact = 1LL << 53;
  std::optional<double> d = parseReal(v);
  if (!d || std::trunc(*d) != *d || std::abs(*d) > exact)
    return std::nullopt;
  return static_cast<int64_t>(*d);
}

std::string realText(double v) {
  char buffer[32];
  auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, r.ptr);
}

static std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= s.size();) {
    size_t end = std::min(s.find(separator, begin), s.size());
    parts.push_back(s.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char &c : out)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

bool isChoice(std::string_view choices, std::string_view text) {
  std::vector<std::string_view> all = split(choices, '|');
  return std::find(all.begin(), all.end(), text) != all.end();
}

std::string choicesText(std::string_view choices) {
  std::vector<std::string_view> all = split(choices, '|');
  std::string s;
  for (size_t i = 0; i < all.size(); ++i)
    s += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + std::string(all[i]);
  return s;
}

Status expectedError(const ConfigText &v, const std::string &what) {
  return Status::error("is " + v.shown + ", expected " + what);
}

// -- fields ----------------------------------------------------------------------------------------

static Status setField(const IntField &f, PlanConfig &c, const ConfigText &v) {
  bool number = v.kind == Kind::Bare || v.kind == Kind::Number;
  std::optional<int64_t> n = number ? parseInteger(v.text) : std::nullopt;
  if (f.optional && v.kind == Kind::Null)
    n = 0;
  else if (n && (*n < f.min || *n > f.max))
    n = std::nullopt;
  if (!n)
    return expectedError(v, f.max == std::numeric_limits<int64_t>::max()
                                ? "an integer of at least " + std::to_string(f.min)
                                : "an integer from " + std::to_string(f.min) + " to " +
                                      std::to_string(f.max));
  f.get(c) = *n;
  return {};
}

static StatusOr<double> readReal(const ConfigText &v, bool fraction) {
  bool number = v.kind == Kind::Bare || v.kind == Kind::Number;
  std::optional<double> n = number ? parseReal(v.text) : std::nullopt;
  if (!n || *n < 0 || (fraction && *n >= 1))
    return expectedError(v, fraction ? "a number of at least 0 and less than 1"
                                     : "a number of at least 0");
  return *n + 0.0; // -0 becomes 0
}

static Status setField(const RealField &f, PlanConfig &c, const ConfigText &v) {
  TRY_ASSIGN(f.get(c), readReal(v, f.fraction));
  return {};
}

static Status setField(const BoolField &f, PlanConfig &c, const ConfigText &v) {
  bool words = f.yes != std::string_view("true");
  bool fits = v.kind == Kind::Bare || v.kind == (words ? Kind::String : Kind::Bool);
  PlanConfig fresh;
  if (f.optional && v.kind == Kind::Null)
    f.get(c) = f.get(fresh);
  else if (fits && v.text == f.yes)
    f.get(c) = true;
  else if (fits && v.text == f.no)
    f.get(c) = false;
  else
    return expectedError(v, std::string(f.yes) + " or " + f.no);
  return {};
}

static Status setField(const TextField &f, PlanConfig &c, const ConfigText &v) {
  bool text = v.kind == Kind::Bare || v.kind == Kind::String;
  if (v.kind == Kind::Null)
    f.get(c).clear();
  else if (text && (!*f.choices || isChoice(f.choices, v.text)))
    f.get(c) = *f.choices && v.text == "none" ? "" : v.text;
  else
    return expectedError(v, *f.choices ? choicesText(f.choices) : "text");
  return {};
}

static Status setField(const BytesField &f, PlanConfig &c, const ConfigText &v) {
  bool size = v.kind == Kind::Bare || v.kind == Kind::Number || v.kind == Kind::String;
  StatusOr<int64_t> n = size ? parseBytes(v.text) : Status::error("");
  if (!n.ok() && v.kind != Kind::Null)
    return expectedError(v, "a number of bytes or a size such as 24GiB");
  f.get(c) = n.ok() ? *n : -1;
  return {};
}

static Status setField(const CustomField &f, PlanConfig &c, const ConfigText &v) {
  return f.set(c, v);
}

static std::string fieldJson(const IntField &f, PlanConfig &c) {
  return f.optional && f.get(c) == 0 ? "null" : std::to_string(f.get(c));
}
static std::string fieldJson(const RealField &f, PlanConfig &c) { return realText(f.get(c)); }
static std::string fieldJson(const BoolField &f, PlanConfig &c) {
  std::string_view word = f.get(c) ? f.yes : f.no;
  return word == "true" || word == "false" ? std::string(word) : jsonQuoted(word);
}
static std::string fieldJson(const BytesField &f, PlanConfig &c) {
  return f.get(c) < 0 ? "null" : std::to_string(f.get(c));
}
static std::string textJson(const std::string &s) { return s.empty() ? "null" : jsonQuoted(s); }
static std::string fieldJson(const TextField &f, PlanConfig &c) { return textJson(f.get(c)); }
static std::string fieldJson(const CustomField &f, PlanConfig &c) { return f.json(c); }

// -- custom fields -----------------------------------------------------------------------------------

static bool isText(const ConfigText &v) { return v.kind == Kind::Bare || v.kind == Kind::String; }

static Status setOptimizerType(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null) {
    c.optimizer.type.clear();
    return {};
  }
  std::string type = lower(v.text);
  if (!isText(v) || !isChoice("adam|adamw|sgd", type)) {
    bool known = isChoice("adagrad|lamb|lion|muon|onebitadam|zerooneadam|onebitlamb|muadam|muadamw|"
                          "musgd|rmsprop|nadam|radam|adamax|adadelta|asgd|rprop|adafactor",
                          type);
    return expectedError(v,
                         known ? "Adam, AdamW or SGD; it is not supported" : "Adam, AdamW or SGD");
  }
  c.optimizer.type = type;
  return {};
}
static std::string jsonOptimizerType(const PlanConfig &c) { return textJson(c.optimizer.type); }

static Status setSchedulerType(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null) {
    c.scheduler.type.clear();
    return {};
  }
  if (!isText(v) || !isChoice("WarmupLR|WarmupDecayLR|WarmupCosineLR", v.text)) {
    std::string expected = "WarmupLR, WarmupDecayLR or WarmupCosineLR";
    bool known = isChoice("OneCycle|LRRangeTest", v.text);
    return expectedError(v, known ? expected + "; it is not supported" : expected);
  }
  c.scheduler.type = v.text;
  return {};
}
static std::string jsonSchedulerType(const PlanConfig &c) { return textJson(c.scheduler.type); }

static Status setMaxLr(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null) {
    c.scheduler.maxLr.reset();
    return {};
  }
  TRY_ASSIGN(c.scheduler.maxLr, readReal(v, false));
  return {};
}
static std::string jsonMaxLr(const PlanConfig &c) {
  return c.scheduler.maxLr ? realText(*c.scheduler.maxLr) : "null";
}

static Status setTotalSteps(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null) {
    c.scheduler.totalSteps.reset();
    return {};
  }
  std::optional<int64_t> n = v.kind == Kind::String ? std::nullopt : parseInteger(v.text);
  if (!n || *n < 1)
    return expectedError(v, "an integer of at least 1");
  c.scheduler.totalSteps = *n;
  return {};
}
static std::string jsonTotalSteps(const PlanConfig &c) {
  return c.scheduler.totalSteps ? std::to_string(*c.scheduler.totalSteps) : "null";
}

static Status setMinLossScale(PlanConfig &c, const ConfigText &v) {
  TRY_ASSIGN(double s, readReal(v, false));
  if (s == 0)
    return expectedError(v, "a number above 0");
  c.precision.minScale = s;
  return {};
}
static std::string jsonMinLossScale(const PlanConfig &c) { return realText(c.precision.minScale); }

static Status setDampening(PlanConfig &c, const ConfigText &v) {
  TRY_ASSIGN(double d, readReal(v, false));
  if (d != 0)
    return expectedError(v, "0: dampening is not supported");
  c.optimizer.dampening = 0;
  return {};
}
static std::string jsonDampening(const PlanConfig &c) { return realText(c.optimizer.dampening); }

static Status setOffloadRatio(PlanConfig &c, const ConfigText &v) {
  TRY_ASSIGN(double r, readReal(v, false));
  if (r > 1)
    return expectedError(v, "a number from 0 to 1");
  c.offloadRatio = r;
  return {};
}
static std::string jsonOffloadRatio(const PlanConfig &c) { return realText(c.offloadRatio); }

static Status setParamNvmePath(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null)
    return {};
  if (!isText(v))
    return expectedError(v, "text");
  if (!c.nvmePath.empty() && c.nvmePath != v.text)
    return expectedError(v, "offload_optimizer's " + c.nvmePath + ": a rank has one file");
  c.nvmePath = v.text;
  return {};
}
static std::string jsonParamNvmePath(const PlanConfig &) { return "null"; } // it is the other key's

static Status setLoss(PlanConfig &c, const ConfigText &v) {
  if (v.kind == Kind::Null) {
    c.loss = {};
    return {};
  }
  if (!isText(v))
    return expectedError(v, "text such as \"ce:logits=logits,labels=labels\"");
  StatusOr<LossConfig> loss = parseLoss(v.text);
  if (!loss.ok())
    return Status::error("is " + v.shown + ": " + loss.status().entries()[0].text);
  c.loss = std::move(loss).take();
  return {};
}
static std::string jsonLoss(const PlanConfig &c) { return textJson(c.loss.text); }

// -- the table -----------------------------------------------------------------------------------------

static constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

#define GET(path)                                                                                  \
  [](PlanConfig & c) -> auto & { return c.path; }
#define INT(path, min)                                                                             \
  IntField { GET(path), min, kMaxInt, false }
#define INT_OR_NONE(path, min)                                                                     \
  IntField { GET(path), min, kMaxInt, true }
#define INT_RANGE(path, min, max)                                                                  \
  IntField { GET(path), min, max, false }
#define NON_NEGATIVE(path)                                                                         \
  RealField { GET(path), false }
#define FRACTION(path)                                                                             \
  RealField { GET(path), true }
#define BOOL(path)                                                                                 \
  BoolField { GET(path), false, "false", "true" }
#define BOOL_OR_NONE(path)                                                                         \
  BoolField { GET(path), true, "false", "true" }
#define ONE_OF_TWO(path, no, yes)                                                                  \
  BoolField { GET(path), false, no, yes }
#define TEXT(path, choices)                                                                        \
  TextField { GET(path), choices }
#define BYTES(path)                                                                                \
  BytesField { GET(path) }
#define CUSTOM(name)                                                                               \
  CustomField { set##name, json##name }

const std::vector<ConfigKey> &configTable() {
  static const std::vector<ConfigKey> table = {
#define KEY(path, name, field, dflt, when, summary) {path, name, field, dflt, when, summary},
#include "frontend/Config.def"
  };
  return table;
}

const std::vector<OtherConfigKey> &otherConfigTable() {
  using OtherKind = OtherConfigKey::Kind;
  static const std::vector<OtherConfigKey> table = {
#define IGNORED(path, type, reason) {OtherKind::Ignored, path, type, reason},
#define REFUSED(path, harmless, hint) {OtherKind::Refused, path, harmless, hint},
#define BLOCK(path, hint) {OtherKind::Block, path, "", hint},
#include "frontend/Config.def"
  };
  return table;
}

std::string ConfigKey::json(PlanConfig &c) const {
  return std::visit([&](const auto &f) { return fieldJson(f, c); }, field);
}

std::string ConfigKey::mismatch(const PlanConfig &c) const {
  std::string_view w = when;
  std::string stage = std::to_string(c.stage);
  if (w.ends_with(" or one rank")) {
    bool holds = c.world == 1 || c.stage == 3 || (w.starts_with("stages 1") && c.stage >= 1);
    return holds ? "" : "it needs " + std::string(w) + ", and the stage is " + stage;
  }
  if (w == "offload_optimizer")
    return c.offloadOptimizer.empty() ? "the optimizer is not offloaded" : "";
  if (w == "offload_param")
    return c.offloadParam.empty() ? "parameters are not offloaded" : "";
  if (w == "checkpoints") {
    bool any = c.cpuCheckpointing || !(c.recompute.empty() || c.recompute == "none");
    return any ? "" : "nothing is recomputed";
  }
  if (w == "nvme")
    return c.offloadOptimizer == w || c.offloadParam == w ? "" : "nothing is offloaded to nvme";
  if (w.starts_with("stage "))
    return w.substr(6) == stage
               ? ""
               : "it matters at " + std::string(w) + " only, and the stage is " + stage;
  if (w.starts_with("Warmup")) {
    std::string names(w);
    for (size_t at; (at = names.find('|')) != std::string::npos;)
      names.replace(at, 1, names.find('|', at + 1) == std::string::npos ? " or " : ", ");
    return isChoice(w, c.scheduler.type) ? "" : "there is no " + names + " scheduler";
  }
  if (w == "fp16" || w == "dynamic") {
    bool holds = w == "fp16" ? c.precision.fp16 : c.precision.isDynamic();
    return holds ? "" : c.precision.fp16 ? "fp16.loss_scale is fixed" : "fp16 is off";
  }
  if (w == "adam" || w == "sgd") {
    bool holds = c.optimizer.type.starts_with(w); // adamw takes what adam takes
    return holds ? ""
                 : (c.optimizer.type.empty() ? "no optimizer" : c.optimizer.type) +
                       " has no such parameter";
  }
  return "";
}

Status setConfigValue(PlanConfig &c, const ConfigKey &key, const ConfigText &v,
                      std::string_view subject) {
  auto named = [&](Status s) {
    return s.ok() ? Status() : Status::error(std::string(subject) + " " + s.entries()[0].text);
  };
  auto *text = std::get_if<TextField>(&key.field);
  bool free = (text && (!*text->choices || isChoice(text->choices, "auto"))) ||
              std::string_view(key.path).ends_with(".type") || std::string_view(key.name) == "loss";
  ConfigText value = v;
  if (isText(v) && v.text == "auto" && !free) {
    std::string_view d = key.dflt;
    bool isQuoted = d.starts_with("\"");
    value.text = isQuoted ? d.substr(1, d.size() - 2) : d;
    value.kind = d == "null" ? Kind::Null : Kind::Bare;
  }
  return named(std::visit([&](const auto &f) { return setField(f, c, value); }, key.field));
}

// -- keys without effect --------------------------------------------------------------------------------

static bool hasType(const ConfigText &v, std::string_view type) {
  if (type == "any" || v.kind == Kind::Bare || v.kind == Kind::Null || v.text == "auto")
    return true;
  switch (v.kind) {
  case Kind::Bool:
    return type == "bool";
  case Kind::Number:
    return type == "number" || (type == "int" && parseInteger(v.text));
  case Kind::String:
    return type == "text";
  default:
    return v.kind == Kind::Object && type == "object";
  }
}

Status OtherConfigKey::take(PlanConfig &c, const ConfigText &v) const {
  std::string subject = path;
  if (kind == Kind::Block) {
    bool off = v.kind == ConfigText::Kind::Null || v.text == "false" || v.text == "off";
    return off ? Status() : Status::error(subject + " is not supported: " + reason);
  }
  if (kind == Kind::Ignored) {
    if (!hasType(v, arg))
      return Status::error(subject + " is " + v.shown + ", expected " +
                           (arg == std::string_view("bool")     ? "true or false"
                            : arg == std::string_view("int")    ? "an integer"
                            : arg == std::string_view("number") ? "a number"
                            : arg == std::string_view("text")   ? "text"
                                                                : "an object"));
    c.noEffect.push_back(subject + ": " + reason);
    return {};
  }
  bool scalar = v.kind != ConfigText::Kind::Object && v.kind != ConfigText::Kind::Array;
  for (std::string_view ok : split(arg, '|')) {
    std::optional<double> a = parseReal(ok), b = parseReal(v.text);
    if (*arg && scalar && (v.text == ok || v.text == "auto" || (a && b && *a == *b)))
      return {};
  }
  return Status::error(subject + " is " + v.shown + ", which is not supported: " + reason);
}

// -- single values by name --------------------------------------------------------------------------------

std::vector<std::string> configKeys() {
  std::vector<std::string> names;
  for (const ConfigKey &k : configTable())
    names.push_back(k.name);
  return names;
}

static std::string_view lastPart(std::string_view path) { return path.substr(path.rfind('.') + 1); }

Status setConfigKey(PlanConfig &c, std::string_view key, std::string_view value) {
  ConfigText v{Kind::Bare, std::string(value), "'" + std::string(value) + "'"};
  const ConfigKey *found = nullptr, *byPart = nullptr;
  bool ambiguous = false;
  for (const ConfigKey &k : configTable()) {
    if (key == k.name || key == k.path)
      found = &k;
    if (key == lastPart(k.path)) {
      ambiguous |= byPart != nullptr;
      byPart = &k;
    }
  }
  if (!found && !ambiguous)
    found = byPart;
  if (found) {
    TRY(setConfigValue(c, *found, v, key));
    c.source[found->path] = "--set";
    return {};
  }
  for (const OtherConfigKey &k : otherConfigTable())
    if (key == k.path)
      return k.take(c, v);
  std::vector<std::string> known = configKeys();
  for (const ConfigKey &k : configTable()) {
    known.push_back(std::string(lastPart(k.path)));
    known.push_back(k.path);
  }
  std::string near = nearest(key, known);
  return Status::error("unknown key '" + std::string(key) + "'" +
                       (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

} // namespace ds
