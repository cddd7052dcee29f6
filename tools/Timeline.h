// SPDX-License-Identifier: Apache-2.0
//
// What a plan will do in time, on the target that the config names.
#pragma once

#include "frontend/Config.h"
#include "passes/Simulate.h"

#include <optional>

namespace ds {

/// A target and what its ranks reach.
struct TargetRates {
  Target target;
  Rates rates;
  std::vector<std::string> missing; // what was filled in, as "product_fraction 0.7"
};
/// Of the config's target; none if it names none, or one that does not state enough.
StatusOr<std::optional<TargetRates>> targetRates(const PlanConfig &c);

Simulation predict(const Schedule &s, const TargetRates &t);

/// What a prediction for this schedule rests on besides the target's own figures, a line each.
std::vector<std::string> predictionNotes(const Schedule &s, const TargetRates &t);

/// "compute 93 %": the stream with the largest part of the critical path.
std::string bindingText(const Simulation &sim);

/// The predicted second and third update as dsexec --trace writes them, of one rank. Without a target: of `cpu`.
/// An error if the target does not state the rates that it takes.
StatusOr<std::string> timelineText(const Schedule &s, const PlanConfig &c);

} // namespace ds
