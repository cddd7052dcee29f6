// SPDX-License-Identifier: Apache-2.0
//
// What the summary is about, as text and as JSON: the plans of all stages side by side, and what would lower the chosen one.
#pragma once

#include "passes/Report.h"
#include "tools/Changes.h"
#include "tools/Fit.h"
#include "tools/SummaryRecompute.h"
#include "tools/Timeline.h"

namespace ds {

struct StagePlan {
  int64_t stage = 0;
  Schedule schedule;
  MemoryReport memory;
  TrafficReport traffic;
  double planMs = 0;
  std::optional<Simulation> predicted; // with a target that states its rates
};

/// One change of the config each; nothing if the summary does not tell.
struct Explanation {
  PlannedChange now;
  std::vector<PlannedChange> changes;
  std::string rates; // whose the times are by
};

struct SummaryPlans {
  std::vector<StagePlan> stages; // 0 to 3
  std::optional<MemoryLimit> limit;
  std::optional<RecomputeSummary> recomputed;
  std::optional<Explanation> explanation;
  Status fits; // whether the config's stage does, with what helps
};
/// explain: also where it fits and explaining takes long.
StatusOr<SummaryPlans> summaryPlans(const LoadedModel &model, bool explain);

struct ParamCount {
  int64_t tensors = 0, elems = 0, trainedElems = 0;
};
ParamCount countParams(const Schedule &s);
/// Trainable parameters that get no gradient, and initializers that no output reads, by the model's names.
std::vector<std::string> unusedParams(const LoadedModel &model, const Schedule &s);

} // namespace ds
