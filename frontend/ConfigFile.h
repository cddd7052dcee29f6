// SPDX-License-Identifier: Apache-2.0
//
// From ds_config.json and flags to a PlanConfig. The keys are those of DeepSpeed 0.19.6 plus the block
// "dsplan"; every one is a row of Config.def. All problems are reported at once, each with the file's line,
// the JSON path and, for unknown keys, the nearest known one.
#pragma once

#include "frontend/Config.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ds {

/// What the command line says about the config. A flag fills what the file leaves out; a flag that differs
/// from a value in the file is an error that names both. `set` overrides silently: it is explicit.
struct ConfigOverrides {
  std::optional<int64_t> stage, world, trainBatch, microBatch, gradAccum;
  std::optional<double> lr, clip;
  std::optional<std::string> optimizer; // --optimizer: adam, adamw, sgd in any case
  std::optional<std::string> loss;      // --loss, as parseLoss takes it
  std::optional<std::string> trainable, freeze, reduce, reduction, carry, fuse, recompute, dtype;
  std::optional<std::string> offload, offloadOptimizer, offloadParam, nvmePath, offloadActivations;
  std::optional<std::string> target, deviceMemory, hostMemory, memoryReserve;
  std::optional<int64_t> updates; // of the run; a scheduler's total_num_steps that is "auto"
  std::vector<std::pair<std::string, std::string>>
      set;                               // --set KEY=VALUE, in order; the last one holds
  std::vector<std::string> allowUnknown; // --allow-unknown: JSON paths, with all below them
  /// dsplan: what is missing is assumed and said in PlanConfig::assumptions (AdamW, micro-batch 1, the largest
  /// world size up to 8 that the batch sizes allow). dsexec, false: a missing optimizer or batch size is an
  /// error, and the world size is 1 unless given.
  bool assume = true;
};

/// Reads a config file and applies the flags; an empty path stands for no file. The batch sizes of the result
/// agree: trainBatch = microBatch * gradAccum * world. Errors: unreadable file, malformed JSON, duplicate,
/// unknown, refused or contradicting keys, values out of range, batch sizes that do not multiply.
StatusOr<PlanConfig> readConfig(const std::string &path, const ConfigOverrides &overrides);

/// The same for JSON text that came from `file` (only named in messages).
StatusOr<PlanConfig> parseConfig(std::string_view text, const std::string &file,
                                 const ConfigOverrides &overrides);

/// Settles every "auto" that needs no model; the others stay in c.autos. o.assume: a key without an answer has its
/// default, and c.assumptions says so; otherwise it is an error.
Status settleAutos(PlanConfig &c, const ConfigOverrides &o);

/// Settles what is "auto" and only the model decides, as Hugging Face's Trainer does for a model of this hidden size:
/// reduce_bucket_size hidden^2, stage3_prefetch_bucket_size 0.9 hidden^2, stage3_param_persistence_threshold
/// 10 hidden. hidden 0: not known; then a key that matters at c.stage is an error that says what to write.
Status resolveAutos(PlanConfig &c, int64_t hidden);

/// Completes trainBatch, microBatch and gradAccum for c.world ranks; 0 stands for not given. At least one of
/// the first two must be given. Errors show the given values, the product and the nearest values that fit.
Status resolveBatch(PlanConfig &c);

/// ce:logits=NAME,labels=NAME[,ignore_index=N][,shift=0|1] | mse:prediction=NAME,target=NAME | output:NAME
/// Errors say what is wrong with the text, which the caller names.
StatusOr<LossConfig> parseLoss(std::string_view text);

/// The resolved config as JSON, which readConfig reads back to the same values. Every value is followed by a
/// comment that says where it came from: a place in the file, a flag, a derivation, or the default.
std::string printConfig(const PlanConfig &c);

} // namespace ds
