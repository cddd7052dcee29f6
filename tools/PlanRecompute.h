// SPDX-License-Identifier: Apache-2.0
//
// Plans with what backward computes again, and without, and keeps what is worth it; --recompute auto plans until it fits.
#pragma once

#include "passes/PassManager.h"
#include "passes/Simulate.h"

namespace ds {

/// The rates that times of a plan are told by: the target's, or, where there is none or it states too little, those of `cpu`.
StatusOr<Rates> planRates(const PlanConfig &c);
/// Whose they are.
StatusOr<std::string> planRatesName(const PlanConfig &c);
/// Predicted by them.
StatusOr<double> updateSeconds(const Schedule &s, const PlanConfig &c);

struct RecomputePlan {
  std::string mode;                // PlanConfig::recompute: what was asked for, or none
  std::vector<std::string> values; // PlanConfig::recomputeValues
  std::unique_ptr<Module> module;  // behind all passes
  Schedule schedule;
};
/// Nothing is computed again where that does not make the arena smaller; nor, with auto, without a limit of memory, or where the
/// plan fits anyway. c: complete, with workspaceBytes.
StatusOr<RecomputePlan> planRecompute(const Module &model, const PlanConfig &c);

} // namespace ds
