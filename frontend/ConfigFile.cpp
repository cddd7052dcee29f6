// SPDX-License-Identifier: Apache-2.0
//
// Walks the file's JSON along the table, applies flags, then checks what keys say together.
#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"
#include "ir/Json.h"

#include "ir/Lexer.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Regex.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

namespace ds {

namespace {

constexpr size_t kMaxBytes = 1 << 20; // of a config file
constexpr size_t kMaxProblems = 50;
constexpr int64_t kMaxAssumedWorld = 8;

ConfigText toText(const JsonValue &v) {
  using Kind = ConfigText::Kind;
  static constexpr Kind kinds[] = {Kind::Null,   Kind::Bool,  Kind::Number,
                                   Kind::String, Kind::Array, Kind::Object};
  ConfigText t{kinds[static_cast<int>(v.kind)], v.text, v.shown()};
  if (v.kind == JsonValue::Kind::Object) { // for blocks: whether anything is asked for
    const JsonValue *enabled = v.find("enabled");
    bool off =
        v.members.empty() || (enabled && (enabled->text == "false" || enabled->text == "auto"));
    t.text = off ? "off" : "on";
  }
  return t;
}

bool contains(const std::vector<std::string> &all, const std::string &one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string didYouMean(const std::string &near) {
  return near.empty() ? "" : "; did you mean " + near + "?";
}

const ConfigKey *findKey(std::string_view path) {
  for (const ConfigKey &k : configTable())
    if (path == k.path)
      return &k;
  return nullptr;
}

std::vector<std::string> allPaths() {
  std::vector<std::string> paths;
  for (const ConfigKey &k : configTable())
    paths.push_back(k.path);
  for (const OtherConfigKey &k : otherConfigTable())
    paths.push_back(k.path);
  return paths;
}

class Reader {
public:
  Reader(std::string_view text, const std::string &file, const ConfigOverrides &o)
      : places(text, file), overrides(o), paths(allPaths()) {}

  // -- the file ---------------------------------------------------------------------------------------

  void readFile(const JsonValue &root) {
    block(root, "", root.pos);
    const JsonValue *checkpoints = root.find("activation_checkpointing");
    mayRecompute = checkpoints && checkpoints->kind == JsonValue::Kind::Object;
  }

  // -- flags --------------------------------------------------------------------------------------------

  void applyFlags() {
    const ConfigOverrides &o = overrides;
    flag("--stage", "zero_optimization.stage", o.stage);
    flag("--world-size", "dsplan.world_size", o.world);
    flag("--train-batch", "train_batch_size", o.trainBatch);
    flag("--micro-batch", "train_micro_batch_size_per_gpu", o.microBatch);
    flag("--grad-accum", "gradient_accumulation_steps", o.gradAccum);
    flag("--optimizer", "optimizer.type", o.optimizer);
    flag("--lr", "optimizer.params.lr", o.lr);
    flag("--clip", "gradient_clipping", o.clip);
    flag("--loss", "dsplan.loss", o.loss);
    flag("--trainable", "dsplan.trainable", o.trainable);
    flag("--freeze", "dsplan.freeze", o.freeze);
    flag("--reduce", "dsplan.reduce", o.reduce);
    flag("--reduction", "dsplan.reduction", o.reduction);
    flag("--carry", "dsplan.carry", o.carry);
    flag("--fuse", "dsplan.fuse", o.fuse);
    flag("--recompute", "dsplan.recompute", o.recompute);
    flag("--offload", "dsplan.offload", o.offload);
    flag("--offload-optimizer", "zero_optimization.offload_optimizer.device", o.offloadOptimizer);
    flag("--offload-param", "zero_optimization.offload_param.device", o.offloadParam);
    flag("--offload-activations", "dsplan.offload_activations", o.offloadActivations);
    flag("--nvme-path", "zero_optimization.offload_optimizer.nvme_path", o.nvmePath);
    flag("--dtype", "dsplan.dtype", o.dtype);
    flag("--target", "dsplan.target", o.target);
    flag("--device-memory", "dsplan.device_memory", o.deviceMemory);
    flag("--host-memory", "dsplan.host_memory", o.hostMemory);
    flag("--memory-reserve", "dsplan.memory_reserve", o.memoryReserve);
    for (const auto &[key, value] : o.set)
      if (Status s = setConfigKey(c, key, value); !s.ok()) {
        setFailed = true;
        problems.merge(std::move(s).at("--set " + key + "=" + value));
      }
  }

  // -- together -------------------------------------------------------------------------------------------

  StatusOr<PlanConfig> finish() {
    if (!setFailed) {
      optimizer();
      problems.merge(settleAutos(c, overrides));
      scheduler();
      checkpointing();
      precision();
      mismatches();
      batch();
      offload();
    }
    TRY(std::move(problems));
    return std::move(c);
  }

private:
  bool full() const { return problems.entries().size() >= kMaxProblems; }
  bool given(const std::string &path) const { return c.source.count(path) != 0; }
  void problem(size_t pos, const std::string &text) { problems.merge(places.error(pos, text)); }
  void problem(const std::string &text) { problems.merge(Status::error(text)); }

  // The parts that follow `path` in the table: {"stage", "offload_param", ...} for "zero_optimization".
  std::vector<std::string> children(const std::string &path) const {
    std::vector<std::string> kids;
    for (const std::string &p : paths) {
      if (!p.starts_with(path) || p.size() == path.size())
        continue;
      size_t from = path.size() + (p[path.size()] == '.' && !path.empty());
      if (!path.empty() && from == path.size() && p[from] != '[')
        continue;
      std::string kid = p.substr(from, p.find_first_of(".[", from + 1) - from);
      if (std::find(kids.begin(), kids.end(), kid) == kids.end())
        kids.push_back(kid);
    }
    return kids;
  }

  void visit(const JsonMember &m, const std::string &path) {
    if (full())
      return;
    if (path == "bfloat16") // DeepSpeed's older name
      return visit(m, "bf16");
    if (const ConfigKey *k = findKey(path))
      return key(m.value, *k);
    ConfigText text = toText(m.value);
    for (const OtherConfigKey &k : otherConfigTable())
      if (path == k.path) {
        if (Status s = k.take(c, text); !s.ok())
          problem(m.pos, s.entries()[0].text);
        return;
      }
    if (!children(path).empty())
      return block(m.value, path, m.pos);
    // DeepSpeed takes the names of its fields, too: prefetch_bucket_size for stage3_prefetch_bucket_size.
    std::string parent = path.substr(0, path.size() - m.key.size());
    if (std::string full = parent + "stage3_" + m.key;
        parent == "zero_optimization." && contains(paths, full))
      return visit(m, full);
    unknown(m, path);
  }

  void key(const JsonValue &v, const ConfigKey &k) {
    if (auto had = c.source.find(k.path); had != c.source.end())
      return problem(v.pos, std::string(k.path) + " is given twice, first at " + had->second);
    if (Status s = setConfigValue(c, k, toText(v), k.path); !s.ok()) {
      problem(v.pos, s.entries()[0].text);
      failed.insert(k.path);
      return;
    }
    if (v.kind == JsonValue::Kind::String && v.text == "auto" && k.json(c) != "\"auto\"")
      c.autos.push_back(k.path);
    else if (v.kind != JsonValue::Kind::Null || std::string_view(k.dflt) != "null")
      c.source[k.path] = places.place(v.pos);
  }

  void block(const JsonValue &v, const std::string &path, size_t pos) {
    using Kind = JsonValue::Kind;
    std::vector<std::string> kids = children(path);
    bool array = kids[0].starts_with("[");
    if (v.kind == Kind::Null)
      return;
    if (array && v.text == "auto") {
      for (const std::string &kid : kids)
        c.autos.push_back(path + kid);
      return;
    }
    if (path == "zero_optimization" && v.kind == Kind::Bool) {
      c.stage = v.text == "true";
      c.source["zero_optimization.stage"] = places.place(v.pos);
      c.assumptions.push_back("zero_optimization is " + v.text +
                              ", an old form of {\"stage\": " + std::to_string(c.stage) + "}");
      return;
    }
    bool fits = v.kind == (array ? Kind::Array : Kind::Object) &&
                (!array || v.members.size() == kids.size());
    if (!fits)
      return problem(v.pos, (path.empty() ? "the config" : path) + " is " + v.shown() +
                                ", expected " +
                                (array ? "an array of " + std::to_string(kids.size()) + " numbers"
                                       : std::string("an object")));
    bool typed = path == "optimizer" || path == "scheduler";
    for (const JsonMember &m : v.members) // the type first: other types have other parameters
      if (typed && m.key == "type")
        visit(m, path + ".type");
    if (typed && v.find("params") && !failed.count(path + ".type") && !given(path + ".type"))
      untyped.emplace_back(path, pos);
    for (const JsonMember &m : v.members)
      if (!(typed && (m.key == "type" || (m.key == "params" && failed.count(path + ".type")))))
        visit(m, jsonPath(path, m.key));
  }

  void unknown(const JsonMember &m, const std::string &path) {
    for (const std::string &allowed : overrides.allowUnknown)
      if (path == allowed || path.starts_with(allowed + ".")) {
        c.noEffect.push_back(path + ": unknown, admitted by --allow-unknown");
        return;
      }
    std::string parent = path.substr(0, path.size() - m.key.size());
    std::string trimmed = parent.ends_with(".") ? parent.substr(0, parent.size() - 1) : parent;
    std::string near = nearest(m.key, children(trimmed));
    if (!near.empty())
      near = parent + near;
    for (const std::string &p : paths) // the right key in the wrong block
      if (near.empty() && p.ends_with("." + m.key))
        near = p;
    problem(m.pos, path + ": unknown key" + didYouMean(near));
  }

  // -- flags ------------------------------------------------------------------------------------------------

  void flag(const char *name, const char *path, const std::optional<int64_t> &v) {
    if (v)
      flagText(name, path, std::to_string(*v));
  }
  void flag(const char *name, const char *path, const std::optional<std::string> &v) {
    if (v)
      flagText(name, path, *v);
  }
  void flag(const char *name, const char *path, const std::optional<double> &v) {
    if (v)
      flagText(name, path, realText(*v));
  }

  void flagText(const char *name, const char *path, const std::string &value) {
    const ConfigKey &k = *findKey(path);
    PlanConfig other = c;
    ConfigText text{ConfigText::Kind::Bare, value, "'" + value + "'"};
    if (Status s = setConfigValue(other, k, text, name); !s.ok()) {
      failed.insert(path);
      return problems.merge(std::move(s));
    }
    auto had = c.source.find(path);
    if (had != c.source.end() && k.json(other) != k.json(c)) {
      failed.insert(path);
      return problem(std::string(name) + " " + k.json(other) + " contradicts " + path + " = " +
                     k.json(c) + " in " + had->second + "; change one of them");
    }
    if (had == c.source.end()) {
      c = std::move(other);
      c.source[path] = name;
    }
  }

  // -- together -----------------------------------------------------------------------------------------------

  void optimizer() {
    bool open = failed.count("optimizer.type") != 0;
    if (c.optimizer.type.empty() && !open) {
      bool reported = false;
      for (const auto &[path, pos] : untyped)
        if (path == "optimizer") {
          problem(pos, "optimizer.type is missing, expected Adam, AdamW or SGD");
          reported = true;
        }
      if (!reported && !overrides.assume)
        problem("no optimizer is given: set optimizer.type in the config, or --optimizer adamw");
      if (!reported && overrides.assume) {
        c.optimizer.type = "adamw";
        c.source["optimizer.type"] = "assumed";
        c.assumptions.push_back("optimizer AdamW with lr " +
                                findKey("optimizer.params.lr")->json(c) +
                                "; --optimizer and --lr set them");
      }
    }
    if (c.optimizer.type == "adamw" && !c.optimizer.adamWMode)
      c.noEffect.push_back("optimizer.params.adam_w_mode: AdamW is always decoupled");
    if (c.optimizer.type == "sgd" && c.optimizer.nesterov && c.optimizer.momentum == 0)
      problem("optimizer.params.nesterov is true, which needs optimizer.params.momentum above 0");
  }

  void scheduler() {
    SchedulerConfig &s = c.scheduler;
    if (s.type.empty() && !failed.count("scheduler.type"))
      for (const auto &[path, pos] : untyped)
        if (path == "scheduler")
          problem(pos,
                  "scheduler.type is missing, expected WarmupLR, WarmupDecayLR or WarmupCosineLR");
    if (s.type.empty())
      return;
    bool decays = s.type != "WarmupLR";
    if (decays && !s.totalSteps && !failed.count("scheduler.params.total_num_steps"))
      problem("scheduler.params.total_num_steps is missing or \"auto\"; " + s.type +
              " needs the number of updates" + (overrides.assume ? "" : ", or dsexec --steps"));
    if (decays && s.totalSteps && *s.totalSteps < s.warmupSteps)
      c.assumptions.push_back(
          "scheduler.params.total_num_steps is less than warmup_num_steps: the rate "
          "falls to its end right after the warm-up");
    if (!s.maxLr && s.type == "WarmupDecayLR") {
      s.maxLr = 0.001;
      c.assumptions.push_back(
          "scheduler.params.warmup_max_lr is not given: 0.001, as in DeepSpeed");
    } else if (!s.maxLr && !decays) {
      s.maxLr = c.optimizer.lr;
      c.source["scheduler.params.warmup_max_lr"] = "derived: optimizer.params.lr";
      c.assumptions.push_back("scheduler.params.warmup_max_lr is not given: the optimizer's lr, " +
                              findKey("optimizer.params.lr")->json(c));
    }
    if (s.warmupSteps == 1)
      c.assumptions.push_back("scheduler.params.warmup_num_steps 1 counts as 2, as in DeepSpeed");
  }

  // In DeepSpeed the block sets how the model's calls of checkpoint() work; a model without calls keeps everything.
  void checkpointing() {
    if (!mayRecompute || given("dsplan.recompute"))
      return;
    c.recompute = "auto";
    c.source["dsplan.recompute"] = "derived: activation_checkpointing";
    c.assumptions.push_back("recompute auto, since activation_checkpointing is given: as little as "
                            "the device's memory asks for; --recompute sets it");
  }

  void precision() {
    const PrecisionConfig &p = c.precision;
    if (p.fp16 && p.bf16)
      problem("fp16.enabled and bf16.enabled are both true; choose one");
    if (p.isHalf() && !c.dtype.empty())
      problem("dsplan.dtype is " + c.dtype + ", but " + (p.fp16 ? "fp16" : "bf16") +
              ".enabled is true; leave one out");
    std::string computed = p.fp16 ? "fp16" : p.bf16 ? "bf16" : "fp32";
    if (!c.commType.empty() && c.commType != "fp32" && c.commType != computed)
      problem("communication_data_type is " + c.commType + ", expected fp32 or " +
              (p.isHalf() ? computed + ", in which gradients are computed"
                          : "null: gradients are computed in fp32"));
  }

  void offload() {
    bool asks = !c.offloadOptimizer.empty() || !c.offloadParam.empty();
    if (asks && c.world > 1 && overrides.assume && !c.source.count("zero_optimization.stage")) {
      c.stage = c.offloadParam.empty() ? 1 : 3;
      c.source["zero_optimization.stage"] = "assumed";
      c.assumptions.push_back("stage " + std::to_string(c.stage) +
                              ", the first that can offload with several ranks; --stage sets it");
    }
    if (c.cpuCheckpointing && c.offloadActivations.empty()) {
      c.offloadActivations = ".";
      c.source["dsplan.offload_activations"] =
          "derived: activation_checkpointing.cpu_checkpointing";
    }
    std::string invalid;
    if (llvm::Regex regex(c.offloadActivations);
        !c.offloadActivations.empty() && !regex.isValid(invalid))
      problem("dsplan.offload_activations is no regular expression: " + invalid);
    for (const char *name : {"optimizer", "param"}) {
      std::string path = "zero_optimization.offload_" + std::string(name) + ".device";
      const ConfigKey &k = *findKey(path);
      std::string why = k.mismatch(c), device = k.json(c);
      if (why.empty() || device == k.dflt)
        continue;
      if (std::string_view(name) == "optimizer") {
        problem(path + " is " + device + "; " + why);
      } else { // DeepSpeed does not look at it then
        c.noEffect.push_back(path + ": " + why);
        c.offloadParam.clear();
      }
    }
    for (const auto &[key, device] :
         {std::pair("optimizer", &c.offloadOptimizer), std::pair("param", &c.offloadParam)})
      if (*device == "nvme" && c.nvmePath.empty())
        problem("zero_optimization.offload_" + std::string(key) + ".device is nvme, which needs " +
                "nvme_path, a folder on a local disk (--nvme-path)");
  }

  // Given keys that do not go with the stage, the optimizer or the scheduler.
  void mismatches() {
    for (const ConfigKey &k : configTable()) {
      std::string path = k.path, why = k.mismatch(c);
      auto source = c.source.find(path);
      if (why.empty() || source == c.source.end())
        continue;
      std::string_view when = k.when;
      if (when.ends_with(" or one rank"))
        continue; // offload() looks at it, when the number of ranks is known
      if (when.starts_with("stage") || when == "fp16" || when == "dynamic" || when == "nvme" ||
          when == "checkpoints" || when == "offload_optimizer" || when == "offload_param") {
        c.noEffect.push_back(path + ": " + why);
        continue;
      }
      bool byType = when.starts_with("Warmup");
      if (failed.count(byType ? "scheduler.type" : "optimizer.type") ||
          (byType && !untyped.empty()))
        continue;
      if (!byType && c.optimizer.type.empty())
        continue; // its absence is reported
      problems.merge(
          Status::error(path + ": " + why + (byType ? "" : optimizerParams())).at(source->second));
    }
  }

  std::string optimizerParams() const {
    std::string prefix = "optimizer.params.", s;
    for (const ConfigKey &k : configTable())
      if (std::string p = k.path; p.starts_with(prefix) && k.mismatch(c).empty())
        s += (s.empty() ? "; it has " : ", ") + p.substr(prefix.size());
    return s;
  }

  void batch() {
    for (const char *path : {"train_batch_size", "train_micro_batch_size_per_gpu",
                             "gradient_accumulation_steps", "dsplan.world_size"})
      if (failed.count(path))
        return;
    if (overrides.assume && !c.trainBatch && !c.microBatch) {
      c.microBatch = 1;
      c.source["train_micro_batch_size_per_gpu"] = "assumed";
      c.assumptions.push_back("micro-batch 1; --micro-batch sets it");
    }
    if (overrides.assume && !given("dsplan.world_size"))
      assumeWorld();
    std::string what = batchSources();
    auto train = c.source.find("train_batch_size");
    std::string place = train == c.source.end() ? "" : train->second;
    if (Status s = resolveBatch(c); !s.ok())
      problems.merge(std::move(s).at(place).note(what));
  }

  // Who said what about the batch, for its errors.
  std::string batchSources() {
    std::string given, missing;
    for (const char *path : {"train_batch_size", "train_micro_batch_size_per_gpu",
                             "gradient_accumulation_steps", "dsplan.world_size"}) {
      auto source = c.source.find(path);
      std::string &text = source == c.source.end() ? missing : given;
      bool world = path == std::string("dsplan.world_size");
      text += (text.empty() ? "" : ", ") + std::string(world ? "world size" : path);
      if (source != c.source.end())
        text += " " + findKey(path)->json(c) + " (" + source->second + ")";
      else if (world)
        text += ", which is 1 then; --world-size N sets it";
    }
    return "given: " + (given.empty() ? "nothing" : given) +
           (missing.empty() ? "" : "; not given: " + missing);
  }

  void assumeWorld() {
    for (int64_t world = kMaxAssumedWorld; world >= 1; --world) {
      PlanConfig trial = c;
      trial.world = world;
      if (!resolveBatch(trial).ok())
        continue;
      c.world = world;
      c.source["dsplan.world_size"] = "assumed";
      c.assumptions.push_back("world size " + std::to_string(world) + ", the largest up to " +
                              std::to_string(kMaxAssumedWorld) +
                              " that the batch sizes allow; --world-size sets it");
      return;
    }
  }

  Lexer places;
  const ConfigOverrides &overrides;
  const std::vector<std::string> paths;
  PlanConfig c;
  Status problems;
  std::set<std::string> failed; // keys whose value was wrong: nothing is derived from them
  std::vector<std::pair<std::string, size_t>> untyped; // blocks with params but no type, and where
  bool setFailed = false;
  bool mayRecompute = false; // the file has the block activation_checkpointing
};

} // namespace

StatusOr<PlanConfig> parseConfig(std::string_view text, const std::string &file,
                                 const ConfigOverrides &overrides) {
  TRY_ASSIGN(JsonValue root, parseJson(text, file));
  Reader reader(text, file, overrides);
  reader.readFile(root);
  reader.applyFlags();
  return reader.finish();
}

StatusOr<PlanConfig> readConfig(const std::string &path, const ConfigOverrides &overrides) {
  if (path.empty())
    return parseConfig("{}", "", overrides);
  auto unreadable = [&] {
    return Status::error(std::string("the config cannot be read: ") + std::strerror(errno))
        .at(path);
  };
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return unreadable();
  std::string text(kMaxBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    return unreadable();
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxBytes)
    return Status::error("the config is larger than 1 MiB").at(path);
  return parseConfig(text, path, overrides);
}

} // namespace ds
