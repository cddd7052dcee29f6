// SPDX-License-Identifier: Apache-2.0
//
// What the planner is asked for: ds_config.json, its "dsplan" block and flags, resolved into plain structs.
// Every field's key, default and meaning stands in Config.def; docs/config.md is generated from it.
#pragma once

#include "ir/Ops.h"
#include "ir/Status.h"
#include "ir/Type.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct OptimizerConfig {
  std::string type; // "adam", "adamw", "sgd"; empty: not given
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0;
  bool biasCorrection = true;
  bool adamWMode = true; // "Adam" is decoupled unless adam_w_mode is false, as in DeepSpeed
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  bool operator==(const OptimizerConfig &) const = default;
};

struct SchedulerConfig {
  std::string type; // "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"; empty: constant lr
  double minLr = 0;
  std::optional<double> maxLr;               // default: the optimizer's lr; of WarmupDecayLR: 0.001
  std::optional<int64_t> totalSteps;         // decay, cosine: required
  double minRatio = 0, cosMinRatio = 0.0001; // cosine: of the optimizer's lr
  int64_t warmupSteps = 1000;                // used as max(2, n)
  bool logWarmup = true;                     // warmup_type "log" | "linear"
  bool operator==(const SchedulerConfig &) const = default;
};

struct PrecisionConfig {
  bool fp16 = false, bf16 = false; // at most one; neither: the model's types
  double lossScale = 0;            // fp16; 0: dynamic
  int64_t initialScalePower = 16;  // dynamic: the first scale is 2 to the power of it
  int64_t window = 1000;  // dynamic: updates without a skipped one after which the scale doubles
  int64_t hysteresis = 2; // dynamic: skipped updates before it halves
  bool consecutiveHysteresis = false;
  double minScale = 1;
  bool isHalf() const { return fp16 || bf16; }
  bool isDynamic() const { return fp16 && lossScale == 0; }
  DType type() const { return fp16 ? DType::F16 : DType::BF16; } // where isHalf
  bool operator==(const PrecisionConfig &) const = default;
};

struct LossConfig {
  enum class Kind : uint8_t { None, CrossEntropy, Mse, Output } kind = Kind::None;
  std::string logits; // ce: logits; mse: prediction; output: the loss output's name
  std::string labels; // ce: labels input (created if the graph has none); mse: target
  int64_t ignoreIndex = -100;
  int64_t shift = 0; // 1: labels[t] is compared with logits[t-1]
  std::string text;  // as given
  bool operator==(const LossConfig &) const = default;
};

/// Where a bucket's optimizer states and parameters lie: "" (the device) | "cpu" | "nvme".
struct BucketPlace {
  std::string optimizer, param;
  bool operator==(const BucketPlace &) const = default;
};

/// A target's workspace cap in bytes for a launch with these local types; empty: none (D8).
struct WorkspaceRule : std::function<int64_t(OpKind, const std::vector<Type> &ins,
                                             const std::vector<Type> &outs, const Attrs &)> {
  using function::function;
  bool operator==(const WorkspaceRule &) const { return true; } // follows from the rest
};

/// Right before the backward op whose first result is `before`, these values are computed again and kept.
struct RecomputeSweep {
  std::string before;
  std::vector<std::string> values; // results of forward ops
  bool operator==(const RecomputeSweep &) const = default;
};

struct PlanConfig {
  int64_t stage = 0;
  int64_t world = 1;
  int64_t trainBatch = 0, microBatch = 0, gradAccum = 0; // resolved: product holds
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  LossConfig loss;
  PrecisionConfig precision;
  std::string commType; // of gradients on the wire: "" (as computed) | fp32 | fp16 | bf16
  double clip = 1.0;    // gradient_clipping; 0: off
  int64_t reduceBucketSize = 500'000'000;    // elements
  int64_t allgatherBucketSize = 500'000'000; // elements
  int64_t prefetchBucketSize = 50'000'000;   // elements gathered ahead (stage 3)
  int64_t persistenceThreshold = 100'000;    // elements; smaller parameters stay resident (stage 3)
  int64_t keepGathered = 1; // buckets that stay on the device from forward to backward
  bool overlap = true;      // overlap_comm
  std::string reduce;       // "" (the stage's habit) | "boundary" | "every"
  std::string carry;        // "" (where it costs no memory) | "on" | "off"
  std::string reduction;    // "" (native) | "native" | "exact": on CUDA devices
  std::string fuse;         // "" (on) | "on" | "off"
  std::string recompute;    // "" or "none" | "layers" | "auto" | a regex on values and module paths
  std::vector<std::string> recomputeValues; // of "auto": results of the ops, as the planner chose
  std::vector<RecomputeSweep> recomputeSweeps; // of "auto": where one repetition does not fit
  std::string offload; // "" | "auto": what is not given of the following is chosen
  std::string offloadOptimizer, offloadParam; // "" (they stay) | "cpu" | "nvme"
  bool cpuCheckpointing = false;              // the same for all of them
  std::string offloadActivations;             // regex on saved values and module paths; empty: none
  /// Of offload "auto": what the planner chose beyond these keys, by name. Buckets that are not here follow the keys.
  std::map<std::string, BucketPlace, std::less<>> bucketPlaces;
  std::vector<std::string> offloadValues;
  double offloadRatio = 1;              // of the optimizer's elements that the host updates
  int64_t offloadBuffers = 4;           // buckets under way at once between nvme, host and device
  int64_t subGroupSize = 1'000'000'000; // elements that the host updates at once, at most
  bool pinOptimizer = false, pinParam = false; // what of them is in host memory stays there
  std::string nvmePath;                        // folder of the ranks' files
  int64_t aioBlock = 1 << 20, aioDepth = 8;    // bytes of a request, requests in flight
  bool eval = false;                           // a program that only computes the loss
  std::string trainable, freeze;               // regexes
  std::string wrt;                             // regex: what --vjp differentiates for
  std::string dtype;              // "" (the model's) | "f32" | "f64": compute type of the step
  std::string target;             // a name of Targets.def or FILE.json; empty: none
  int64_t ranksPerMachine = 0;    // 0: the target's, or all
  int64_t deviceMemory = -1;      // bytes of a rank's device; -1: the target's
  int64_t hostMemory = -1;        // bytes of main memory that a rank may use; -1: the target's
  int64_t memoryReserve = -1;     // bytes of it for library contexts; -1: the target's, or 0
  std::vector<std::string> autos; // keys that are "auto" and wait for resolveAutos (ConfigFile.h)
  std::vector<std::string> assumptions; // one line each, shown at the top of the summary
  std::vector<std::string> noEffect;    // accepted keys that change nothing here, with the reason
  int64_t stepsPerPrint = 10;           // 0: only the first and the last
  /// By full key ("optimizer.params.lr"): where the value came from, such as "ds.json:4:7", "--lr", "--set" or
  /// "derived: ...". Keys that are not here have their default.
  std::map<std::string, std::string> source;
  WorkspaceRule workspaceBytes;

  bool operator==(const PlanConfig &) const = default;
};

/// Whether host memory is to be page-locked.
inline bool pinsHost(const PlanConfig &c) {
  return (c.pinOptimizer && !c.offloadOptimizer.empty()) || (c.pinParam && !c.offloadParam.empty());
}

/// Sets one field from text, e.g. ("stage", "3"), as --set of dsopt does: fixtures need no config file. Unknown
/// keys name the nearest known one. Ranges of single values are checked, their agreement is not.
Status setConfigKey(PlanConfig &c, std::string_view key, std::string_view value);
/// The keys that setConfigKey takes, in the order of its table.
std::vector<std::string> configKeys();

} // namespace ds
