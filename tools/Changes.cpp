// SPDX-License-Identifier: Apache-2.0
#include "tools/Changes.h"

#include "frontend/Units.h"
#include "tools/Fit.h"
#include "tools/PlanRecompute.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ds {

namespace {

struct KeyFlag {
  const char *name, *key, *flag;
};
constexpr KeyFlag kFlags[] = {
    {"stage", "zero_optimization.stage", "--stage"},
    {"world", "dsplan.world_size", "--world-size"},
    {"micro_batch", "train_micro_batch_size_per_gpu", "--micro-batch"},
    {"grad_accum", "gradient_accumulation_steps", "--grad-accum"},
    {"recompute", "dsplan.recompute", "--recompute"},
    {"offload", "dsplan.offload", "--offload"},
    {"offload_optimizer", "zero_optimization.offload_optimizer.device", "--offload-optimizer"},
    {"offload_param", "zero_optimization.offload_param.device", "--offload-param"},
    {"offload_activations", "dsplan.offload_activations", "--offload-activations"},
    {"nvme_path", "zero_optimization.offload_optimizer.nvme_path", "--nvme-path"},
    {"device_memory", "dsplan.device_memory", "--device-memory"},
};

// A flag cannot be repeated, nor differ from the file: what is given already is changed by --set.
std::string flagOf(const PlanConfig &c, const std::string &name, const std::string &value) {
  const KeyFlag *f = std::find_if(std::begin(kFlags), std::end(kFlags),
                                  [&](const KeyFlag &k) { return name == k.name; });
  if (f == std::end(kFlags))
    return "--set " + name + "=" + value;
  auto source = c.source.find(f->key);
  bool given = source != c.source.end() && source->second != "assumed" &&
               !source->second.starts_with("derived");
  return given ? "--set " + name + "=" + value : std::string(f->flag) + " " + value;
}

std::string flagsOf(const PlanConfig &c, const Settings &set) {
  std::string text;
  for (const auto &[name, value] : set)
    text += (text.empty() ? "" : " ") + flagOf(c, name, value);
  return text;
}

bool exceedsHost(const PlannedChange &p, const PlanConfig &c) {
  StatusOr<std::optional<MemoryLimit>> limit = memoryLimit(c);
  return limit.ok() && *limit && (*limit)->host > 0 && p.memory.host.arena > (*limit)->host;
}

// Twice the ranks; with half the micro-batches each where that is possible, so that the batch stays.
Settings moreRanks(const PlanConfig &c) {
  Settings s = {{"world", std::to_string(2 * c.world)}};
  if (c.gradAccum % 2 == 0)
    s.emplace_back("grad_accum", std::to_string(c.gradAccum / 2));
  return s;
}

// One key or two; what the config has already is not asked for.
std::vector<Settings> singles(const LoadedModel &model, const PlannedChange &now) {
  const PlanConfig &c = model.config;
  std::vector<Settings> all;
  bool limited = c.deviceMemory >= 0 || !c.target.empty();
  auto add = [&](bool open, Settings s) {
    if (open)
      all.push_back(std::move(s));
  };
  bool chosen = c.offload == "auto"; // what to move and to compute again
  bool plain = c.recompute.empty() || c.recompute == "none";
  add(!chosen && plain, {{"recompute", "layers"}});
  add(!chosen && limited && plain && !now.fits, {{"recompute", "auto"}});
  add(!chosen && c.offloadOptimizer.empty() && (c.world == 1 || c.stage > 0),
      {{"offload_optimizer", "cpu"}});
  add(!chosen && c.offloadParam.empty() && (c.world == 1 || c.stage == 3),
      {{"offload_param", "cpu"}});
  add(!chosen && c.offloadActivations.empty() && !c.cpuCheckpointing,
      {{"offload_activations", "."}});
  add(!chosen && limited && !now.fits, {{"offload", "auto"}});
  if (exceedsHost(now, c))
    for (auto [name, place] :
         {std::pair("offload_optimizer", &c.offloadOptimizer), {"offload_param", &c.offloadParam}})
      if (*place == "cpu") {
        Settings s = {{name, "nvme"}};
        if (c.nvmePath.empty())
          s.emplace_back("nvme_path", ".");
        add(true, std::move(s));
      }
  int64_t part = 2;
  while (part < c.microBatch && c.microBatch % part != 0)
    ++part;
  if (Settings s = dividedMicroBatch(model, part); !s.empty())
    add(true, std::move(s));
  for (int64_t stage = c.stage + 1; stage <= 3 && c.world > 1; ++stage)
    add(true, {{"stage", std::to_string(stage)}});
  add(true, moreRanks(c));
  return all;
}

std::string padded(const std::string &s, size_t width) {
  return std::string(s.size() < width ? width - s.size() : 1, ' ') + s;
}

bool sameCost(const PlannedChange &a, const PlannedChange &b) {
  return a.memory.arena == b.memory.arena && a.memory.host.arena == b.memory.host.arena &&
         a.memory.nvme.arena == b.memory.nvme.arena && a.sampleSeconds == b.sampleSeconds;
}

int64_t needs(const PlannedChange &p, bool host) {
  return host ? p.memory.host.arena : p.memory.arena;
}

} // namespace

Settings dividedMicroBatch(const LoadedModel &model, int64_t part) {
  const PlanConfig &c = model.config;
  if (part < 2 || c.microBatch % part != 0 || !isOnnxPath(model.request.path))
    return {};
  return {{"micro_batch", std::to_string(c.microBatch / part)},
          {"grad_accum", std::to_string(c.gradAccum * part)}};
}

StatusOr<PlannedChange> planAsItIs(const LoadedModel &model, const Schedule &s) {
  PlannedChange p;
  p.memory = memoryReport(s);
  TRY_ASSIGN(double seconds, updateSeconds(s, model.config));
  p.sampleSeconds = seconds / static_cast<double>(std::max<int64_t>(1, model.config.trainBatch));
  p.fits = checkFits(s, model.config).ok();
  return p;
}

StatusOr<PlannedChange> planChange(const LoadedModel &model, Settings set, int threads) {
  TRY_ASSIGN(LoadedModel changed, loadWith(model, set));
  TRY_ASSIGN(Schedule s, plan(changed, changed.config, threads));
  TRY_ASSIGN(PlannedChange p, planAsItIs(changed, s));
  p.flags = flagsOf(model.config, set);
  p.set = std::move(set);
  return p;
}

bool lowers(const PlannedChange &p, const PlannedChange &now, const PlanConfig &c) {
  bool host = exceedsHost(now, c);
  return needs(p, host) < needs(now, host);
}

StatusOr<std::vector<PlannedChange>> loweringChanges(const LoadedModel &model,
                                                     const PlannedChange &now, int threads) {
  std::vector<PlannedChange> all;
  for (Settings &set : singles(model, now)) {
    StatusOr<PlannedChange> p = planChange(model, std::move(set), threads);
    if (!p.ok() && p.status().code() == Code::Internal)
      return std::move(p).status();
    // What amounts to another change is not worth a line, nor what aims at the limit and misses it.
    bool misses = p.ok() && !p->fits && p->set[0].second == "auto";
    if (p.ok() && !misses && lowers(*p, now, model.config) &&
        std::none_of(all.begin(), all.end(),
                     [&](const PlannedChange &o) { return sameCost(o, *p); }))
      all.push_back(std::move(*p));
  }
  bool host = exceedsHost(now, model.config);
  std::stable_sort(all.begin(), all.end(), [&](const PlannedChange &a, const PlannedChange &b) {
    return needs(a, host) < needs(b, host);
  });
  return all;
}

std::string slowerText(const PlannedChange &p, const PlannedChange &now) {
  double percent = 100 * (p.sampleSeconds / now.sampleSeconds - 1);
  if (std::abs(percent) < 0.05)
    return "as fast";
  char text[48];
  std::snprintf(text, sizeof text, "%.1f %% %s", std::abs(percent),
                percent > 0 ? "slower" : "faster");
  return text;
}

std::string changesText(const std::vector<PlannedChange> &all, const PlannedChange &now,
                        const std::string &rates, bool limited) {
  std::string head = "\nwhat would lower it, planned and simulated by the rates of " + rates;
  if (all.empty())
    return head + ": nothing that was tried\n";
  bool host = std::any_of(all.begin(), all.end(),
                          [](const PlannedChange &p) { return p.memory.host.arena > 0; });
  bool nvme = std::any_of(all.begin(), all.end(),
                          [](const PlannedChange &p) { return p.memory.nvme.arena > 0; });
  std::string out = head + "\n" + padded("device", 14) + (host ? padded("host", 12) : "") +
                    (nvme ? padded("nvme", 12) : "") + padded("less", 12) +
                    padded("a sample is", 16) + "  with\n";
  for (const PlannedChange &p : all)
    out += padded(bytesText(p.memory.arena), 14) +
           (host ? padded(bytesText(p.memory.host.arena), 12) : "") +
           (nvme ? padded(bytesText(p.memory.nvme.arena), 12) : "") +
           padded(bytesText(now.memory.arena - p.memory.arena), 12) +
           padded(slowerText(p, now), 16) + "  " + p.flags + (limited && p.fits ? "  fits" : "") +
           "\n";
  return out;
}

} // namespace ds
