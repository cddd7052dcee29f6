// SPDX-License-Identifier: Apache-2.0
//
// "auto", as Hugging Face's Trainer leaves it to be filled in: from flags, from other keys, from the model's
// hidden size, or by the default where the Trainer's and DeepSpeed's agree. What remains needs a value.
#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"

#include <algorithm>

namespace ds {

namespace {

const ConfigKey &keyAt(const std::string &path) {
  return *std::find_if(configTable().begin(), configTable().end(),
                       [&](const ConfigKey &k) { return path == k.path; });
}

// Keys whose default is not what the Trainer fills in, with what to write.
struct Open {
  const char *path, *instead;
};
constexpr Open kOpen[] = {
    {"optimizer.params.lr", "write the learning rate, or give --lr"},
    {"scheduler.params.warmup_num_steps", "write the number of updates"},
    {"zero_optimization.stage", "write 0, 1, 2 or 3, or give --stage"},
};

struct ByHidden {
  const char *path, *formula;
  int64_t PlanConfig::*field;
  int64_t (*value)(int64_t hidden);
};
constexpr ByHidden kByHidden[] = {
    {"zero_optimization.reduce_bucket_size", "hidden size squared", &PlanConfig::reduceBucketSize,
     [](int64_t h) { return h * h; }},
    {"zero_optimization.stage3_prefetch_bucket_size", "0.9 x hidden size squared",
     &PlanConfig::prefetchBucketSize, [](int64_t h) { return h * h * 9 / 10; }},
    {"zero_optimization.stage3_param_persistence_threshold", "10 x hidden size",
     &PlanConfig::persistenceThreshold, [](int64_t h) { return 10 * h; }},
};

} // namespace

Status settleAutos(PlanConfig &c, const ConfigOverrides &o) {
  Status problems;
  std::vector<std::string> waiting;
  for (const std::string &path : c.autos) {
    const ConfigKey &k = keyAt(path);
    if (c.source.count(path)) // a flag
      continue;
    bool batch = path == "train_batch_size" || path == "train_micro_batch_size_per_gpu" ||
                 path == "gradient_accumulation_steps";
    if (batch) // from the other two; the printed config says how
      continue;
    if (std::any_of(std::begin(kByHidden), std::end(kByHidden),
                    [&](const ByHidden &h) { return path == h.path; })) {
      waiting.push_back(path);
      continue;
    }
    if (std::string why = k.mismatch(c); !why.empty()) {
      c.noEffect.push_back(path + ": " + why);
      continue;
    }
    if (path == "scheduler.params.total_num_steps" && o.updates) {
      c.scheduler.totalSteps = *o.updates;
      c.source[path] = "derived: --steps";
      continue;
    }
    if (path == "scheduler.params.warmup_max_lr") {
      // The Trainer's; DeepSpeed's own default differs.
      c.scheduler.maxLr = c.optimizer.lr;
      c.source[path] = "derived: optimizer.params.lr";
    }
    auto open = std::find_if(std::begin(kOpen), std::end(kOpen),
                             [&](const Open &p) { return path == p.path; });
    if (open != std::end(kOpen) && !o.assume) {
      problems.merge(Status::error(path + " is \"auto\": " + open->instead));
      continue;
    }
    std::string now = k.json(c);
    c.assumptions.push_back(path + " is \"auto\": " + (now == "null" ? "left open" : now));
  }
  c.autos = std::move(waiting);
  return problems;
}

Status resolveAutos(PlanConfig &c, int64_t hidden) {
  Status problems;
  for (const ByHidden &h : kByHidden) {
    if (std::find(c.autos.begin(), c.autos.end(), h.path) == c.autos.end())
      continue;
    std::string why = keyAt(h.path).mismatch(c);
    if (hidden > 0) {
      c.*h.field = h.value(hidden);
      c.source[h.path] =
          "derived: " + std::string(h.formula) + ", which is " + std::to_string(hidden);
      c.assumptions.push_back(std::string(h.path) + " is \"auto\": " + std::to_string(c.*h.field) +
                              ", " + h.formula + " (" + std::to_string(hidden) + ")");
    } else if (!why.empty()) {
      c.noEffect.push_back(std::string(h.path) + ": " + why);
    } else {
      problems.merge(Status::error(std::string(h.path) +
                                   " is \"auto\", and the model does not show its hidden size; "
                                   "write " +
                                   h.formula + ", or " + keyAt(h.path).dflt +
                                   ", DeepSpeed's default"));
    }
  }
  c.autos.clear();
  return problems;
}

} // namespace ds
