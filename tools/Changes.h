// SPDX-License-Identifier: Apache-2.0
//
// What else could be asked for, so that a rank needs less memory: recomputation, offloading, a smaller micro-batch, a higher
// stage, more ranks. Each change is planned as its flags would plan it, and its update simulated.
#pragma once

#include "passes/Report.h"
#include "tools/PlanArgs.h"

namespace ds {

struct PlannedChange {
  Settings set;
  std::string flags; // what to add to the command line: "--micro-batch 2 --grad-accum 4"
  MemoryReport memory;
  double sampleSeconds = 0; // an update's predicted time by its batch
  bool fits = true;         // the limits of the config
};

/// The plan as it is. s: of the model's config.
StatusOr<PlannedChange> planAsItIs(const LoadedModel &model, const Schedule &s);
/// Errors: what contradicts the config, or is not in the model to change, and no plan of --offload auto that fits.
StatusOr<PlannedChange> planChange(const LoadedModel &model, Settings set, int threads = 0);

/// Whether it needs less: of the device, or of host memory if that is what the plan as it is exceeds.
bool lowers(const PlannedChange &p, const PlannedChange &now, const PlanConfig &c);
/// All changes of one thing alone that lower it, most bytes first.
StatusOr<std::vector<PlannedChange>> loweringChanges(const LoadedModel &model,
                                                     const PlannedChange &now, int threads = 0);

/// The same global batch in micro-batches of 1/part. Nothing: they cannot be divided so, or the model has its rows built in.
Settings dividedMicroBatch(const LoadedModel &model, int64_t part);
/// "3.1 % slower", "as fast", "0.4 % faster": by sample.
std::string slowerText(const PlannedChange &p, const PlannedChange &now);
/// Lines of a table for the summary. rates: whose the times are by.
std::string changesText(const std::vector<PlannedChange> &all, const PlannedChange &now,
                        const std::string &rates, bool limited);

} // namespace ds
