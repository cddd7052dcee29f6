// SPDX-License-Identifier: Apache-2.0
//
// dsplan --params N: memory of the training states by formula, for every stage, without a model. The formulas are
// those of ZeRO (Rajbhandari et al., 2020): P + G + O bytes per parameter, of which stage 1 divides O by the
// number of ranks, stage 2 also G, and stage 3 also P. Activations, buffers and padding are not in them.
#pragma once

#include "frontend/Config.h"
#include "tools/Fit.h"

#include <array>

namespace ds {

/// Bytes per parameter.
struct StateBytes {
  const char *name; // of the precision
  int64_t param, grad, optimizer;
};
/// fp32: 4 + 4 + moments. 16-bit: 2 + 2 + 4 (master weights) + moments. Moments are 8 bytes for Adam, 4 for SGD with
/// momentum, 0 for plain SGD.
std::array<StateBytes, 2> stateBytes(const OptimizerConfig &o);

/// One rank's bytes for `params` parameters over `world` ranks; a share is rounded up to whole parameters.
struct StageStates {
  int64_t params = 0, grads = 0, optimizer = 0;
  int64_t total() const { return params + grads + optimizer; }
};
StageStates stageStates(const StateBytes &b, int64_t params, int64_t world, int64_t stage);

/// Bytes that a rank sends in one update with one micro-batch: 2 P (N-1)/N per parameter, at stage 3 3 P (N-1)/N.
int64_t stageTraffic(const StateBytes &b, int64_t params, int64_t world, int64_t stage);

struct ParamsPlan {
  std::string text;  // both tables and the first stage that fits
  PlanConfig config; // with its stage
  Status fits;       // Code::DoesNotFit if nothing does, or the stage that was asked for does not
};
/// "7e9", "7B" or "124M" parameters under the config of the flags.
StatusOr<ParamsPlan> planParams(const std::string &count, const PlanConfig &config);

} // namespace ds
