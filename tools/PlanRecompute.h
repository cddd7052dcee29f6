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
/// Whether all streams share the machine's processors and memory, so that nothing hides behind anything.
StatusOr<bool> timesAddUp(const PlanConfig &c);
/// Predicted by them.
StatusOr<double> updateSeconds(const Schedule &s, const PlanConfig &c);

struct RecomputePlan {
  std::string mode;                // PlanConfig::recompute: what was asked for, or none
  std::vector<std::string> values; // PlanConfig::recomputeValues
  std::vector<RecomputeSweep> sweeps;
  std::unique_ptr<Module> module; // behind all passes
  Schedule schedule;
};

/// The model behind the passes before `recompute`, which no choice of what to repeat or move changes; or behind some more.
class PlanRounds {
public:
  /// c: complete, with workspaceBytes.
  static StatusOr<PlanRounds> prepare(const Module &model, const PlanConfig &c);

  /// The same behind the passes before `offload`, without recomputation.
  StatusOr<PlanRounds> beforeOffload(PlanConfig c) const;

  Module &module() const { return *micro; }
  Program &program() const { return *micro->program("micro"); }
  /// The rest of the passes by a config that differs in its choices.
  StatusOr<RecomputePlan> plan(PlanConfig c, std::string mode, std::vector<std::string> values = {},
                               std::vector<RecomputeSweep> sweeps = {}) const;
  /// As emitSchedule, without recomputation: a part of the work.
  StatusOr<Schedule> emit(PlanConfig c) const;

private:
  static StatusOr<PlanRounds> behindPassesBefore(const char *flag, std::unique_ptr<Module> m,
                                                 std::vector<std::string> passes,
                                                 const PlanConfig &c);
  StatusOr<std::unique_ptr<Module>> finish(const PlanConfig &c) const;

  std::unique_ptr<Module> micro;
  std::vector<std::string> behind;
};

/// Where the limit cannot be met with every block's input kept: the plan in which those are computed again, too, that takes
/// least time, or needs least memory if none fits. c: complete; where things lie is decided.
StatusOr<RecomputePlan> planNested(const PlanRounds &rounds, const PlanConfig &c);

/// Nothing is computed again where that does not make the arena smaller; nor, with auto, without a limit of memory, or where the
/// plan fits anyway. c: complete, with workspaceBytes.
StatusOr<RecomputePlan> planRecompute(const Module &model, const PlanConfig &c);
StatusOr<RecomputePlan> planRecompute(const PlanRounds &rounds, const PlanConfig &c);

} // namespace ds
