// SPDX-License-Identifier: Apache-2.0
//
// --recompute auto: plans, looks whether it fits, and if not, plans again with values that backward computes again.
#pragma once

#include "passes/Cost.h"
#include "passes/PassManager.h"

namespace ds {

/// The rates that times of a plan are told by: the target's, or, where there is none or it states too little, those of `cpu`.
StatusOr<Rates> planRates(const PlanConfig &c);

struct RecomputePlan {
  std::vector<std::string> values; // PlanConfig::recomputeValues
  std::unique_ptr<Module> module;  // behind all passes
  Schedule schedule;
};
/// Nothing is computed again without a limit of memory, where the plan fits, or where no choice lowers its peak. c: complete,
/// with workspaceBytes.
StatusOr<RecomputePlan> planRecompute(const Module &model, const PlanConfig &c);

} // namespace ds
