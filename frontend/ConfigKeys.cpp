// SPDX-License-Identifier: Apache-2.0
//
// Single values by short key, for fixtures and dsopt: a table over the plain structs of Config.h.
#include "frontend/Config.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <variant>

namespace ds {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

struct IntField {
  int64_t &(*get)(PlanConfig &);
  int64_t min = 0, max = kMaxInt;
};
struct DoubleField {
  double &(*get)(PlanConfig &);
};
struct BoolField {
  bool &(*get)(PlanConfig &);
};
struct TextField {
  std::string &(*get)(PlanConfig &);
  const char *choices = nullptr; // separated by '|'; null: any text
};
using Custom = Status (*)(PlanConfig &, std::string_view);

struct Key {
  const char *name;
  std::variant<IntField, DoubleField, BoolField, TextField, Custom> field;
};

Status setLoss(PlanConfig &c, std::string_view v);
Status setMaxLr(PlanConfig &c, std::string_view v);
Status setWarmupType(PlanConfig &c, std::string_view v);

#define FIELD(path) [](PlanConfig &c) -> auto & { return c.path; }
const Key keys[] = {
    {"stage", IntField{FIELD(stage), 0, 3}},
    {"world", IntField{FIELD(world), 1, 1 << 20}},
    {"micro_batch", IntField{FIELD(microBatch), 1}},
    {"grad_accum", IntField{FIELD(gradAccum), 1}},
    {"clip", DoubleField{FIELD(clip)}},
    {"optimizer", TextField{FIELD(optimizer.type), "adam|adamw|sgd"}},
    {"lr", DoubleField{FIELD(optimizer.lr)}},
    {"momentum", DoubleField{FIELD(optimizer.momentum)}},
    {"nesterov", BoolField{FIELD(optimizer.nesterov)}},
    {"beta1", DoubleField{FIELD(optimizer.beta1)}},
    {"beta2", DoubleField{FIELD(optimizer.beta2)}},
    {"eps", DoubleField{FIELD(optimizer.eps)}},
    {"weight_decay", DoubleField{FIELD(optimizer.weightDecay)}},
    {"bias_correction", BoolField{FIELD(optimizer.biasCorrection)}},
    {"adam_w_mode", BoolField{FIELD(optimizer.adamWMode)}},
    {"scheduler", TextField{FIELD(scheduler.type), "WarmupLR"}},
    {"warmup_steps", IntField{FIELD(scheduler.warmupSteps)}},
    {"warmup_type", &setWarmupType},
    {"min_lr", DoubleField{FIELD(scheduler.minLr)}},
    {"max_lr", &setMaxLr},
    {"reduce", TextField{FIELD(reduce), "boundary|every"}},
    {"overlap", BoolField{FIELD(overlap)}},
    {"reduce_bucket_size", IntField{FIELD(reduceBucketSize), 1}},
    {"allgather_bucket_size", IntField{FIELD(allgatherBucketSize), 1}},
    {"prefetch_bucket_size", IntField{FIELD(prefetchBucketSize)}},
    {"persistence_threshold", IntField{FIELD(persistenceThreshold)}},
    {"loss", &setLoss},
    {"trainable", TextField{FIELD(trainable)}},
    {"freeze", TextField{FIELD(freeze)}},
    {"dtype", TextField{FIELD(dtype), "f32|f64"}},
};
#undef FIELD

template <typename T> bool parseNumber(std::string_view v, T &out) {
  auto r = std::from_chars(v.data(), v.data() + v.size(), out);
  return r.ec == std::errc() && r.ptr == v.data() + v.size();
}

Status mismatch(std::string_view v, const std::string &expected) {
  return Status::error("is '" + std::string(v) + "', expected " + expected);
}

Status set(const IntField &f, PlanConfig &c, std::string_view v) {
  int64_t n = 0;
  if (!parseNumber(v, n) || n < f.min || n > f.max)
    return mismatch(v, f.max == kMaxInt ? "an integer of at least " + std::to_string(f.min)
                                        : "an integer from " + std::to_string(f.min) + " to " +
                                              std::to_string(f.max));
  f.get(c) = n;
  return {};
}

Status set(const DoubleField &f, PlanConfig &c, std::string_view v) {
  double n = 0;
  if (!parseNumber(v, n) || !std::isfinite(n))
    return mismatch(v, "a finite number");
  f.get(c) = n;
  return {};
}

Status set(const BoolField &f, PlanConfig &c, std::string_view v) {
  if (v != "true" && v != "false")
    return mismatch(v, "true or false");
  f.get(c) = v == "true";
  return {};
}

Status set(const TextField &f, PlanConfig &c, std::string_view v) {
  llvm::SmallVector<llvm::StringRef, 4> choices;
  if (f.choices)
    llvm::StringRef(f.choices).split(choices, '|');
  bool known = choices.empty();
  for (llvm::StringRef choice : choices)
    known |= choice == llvm::StringRef(v.data(), v.size());
  if (!known)
    return mismatch(v, f.choices);
  f.get(c) = v;
  return {};
}

Status set(Custom f, PlanConfig &c, std::string_view v) { return f(c, v); }

Status setMaxLr(PlanConfig &c, std::string_view v) {
  return set(DoubleField{[](PlanConfig &c) -> double & { return c.scheduler.maxLr.emplace(); }}, c, v);
}

Status setWarmupType(PlanConfig &c, std::string_view v) {
  if (v != "log" && v != "linear")
    return mismatch(v, "log or linear");
  c.scheduler.logWarmup = v == "log";
  return {};
}

// ce:logits=A,labels=B[,ignore_index=N][,shift=N] | mse:prediction=A,target=B | output:A
Status setLoss(PlanConfig &c, std::string_view v) {
  LossConfig loss;
  loss.text = v;
  auto [kind, rest] = llvm::StringRef(v.data(), v.size()).split(':');
  loss.kind = llvm::StringSwitch<LossConfig::Kind>(kind)
                  .Case("ce", LossConfig::Kind::CrossEntropy)
                  .Case("mse", LossConfig::Kind::Mse)
                  .Case("output", LossConfig::Kind::Output)
                  .Default(LossConfig::Kind::None);
  if (loss.kind == LossConfig::Kind::None)
    return mismatch(v, "ce:..., mse:... or output:NAME");
  if (loss.kind == LossConfig::Kind::Output) {
    loss.logits = rest.str();
    rest = "";
  }
  bool isMse = loss.kind == LossConfig::Kind::Mse;
  while (!rest.empty()) {
    llvm::StringRef item;
    std::tie(item, rest) = rest.split(',');
    auto [name, text] = item.split('=');
    if (name == "logits" || (isMse && name == "prediction"))
      loss.logits = text.str();
    else if (name == "labels" || (isMse && name == "target"))
      loss.labels = text.str();
    else if (!isMse && name == "ignore_index" && parseNumber(std::string_view(text), loss.ignoreIndex))
      continue;
    else if (!isMse && name == "shift" && parseNumber(std::string_view(text), loss.shift) &&
             loss.shift >= 0 && loss.shift <= 1)
      continue;
    else
      return mismatch(item.str(), isMse ? "prediction=NAME or target=NAME"
                                        : "logits=NAME, labels=NAME, ignore_index=N or shift=0|1");
  }
  if (loss.logits.empty())
    return mismatch(v, "a name for the " + std::string(isMse ? "prediction" : "logits or output"));
  c.loss = std::move(loss);
  return {};
}

} // namespace

std::vector<std::string> configKeys() {
  std::vector<std::string> names;
  for (const Key &k : keys)
    names.push_back(k.name);
  return names;
}

Status setConfigKey(PlanConfig &c, std::string_view key, std::string_view value) {
  for (const Key &k : keys)
    if (key == k.name) {
      Status s = std::visit([&](auto &field) { return set(field, c, value); }, k.field);
      return s.ok() ? Status() : Status::error(std::string(key) + " " + s.entries()[0].text);
    }
  std::string near = nearest(key, configKeys());
  return Status::error("unknown key '" + std::string(key) + "'" +
                       (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

} // namespace ds
