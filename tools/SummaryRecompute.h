// SPDX-License-Identifier: Apache-2.0
//
// What the summary says about recomputation: what is computed again, the bytes that saves, and the time it takes.
#pragma once

#include "passes/Report.h"
#include "tools/PlanArgs.h"

namespace ds {

struct RecomputeSummary {
  std::vector<MemoryPart> parts;    // what is computed again; none: nothing is
  int64_t launches = 0;             // of one micro-batch
  int nested = 0;                   // at most so often one of them is repeated; 0: not nested
  int64_t arena = 0, keptArena = 0; // with and without
  double extraTime = 0;             // part of an update's predicted time
  std::string rates;                // whose rates it is predicted with
  std::string why;                  // nothing is computed again
};
/// Nothing if none was asked for. s: the plan of the model's config.
StatusOr<std::optional<RecomputeSummary>> recomputeSummary(const LoadedModel &model,
                                                           const Schedule &s);
std::string recomputeLines(const RecomputeSummary &r, const std::string &mode);

} // namespace ds
