// SPDX-License-Identifier: Apache-2.0
//
// Whether a plan fits the memory of its target, and what is in the way if it does not.
#pragma once

#include "frontend/Config.h"
#include "frontend/Target.h"
#include "passes/Report.h"

#include <optional>

namespace ds {

/// The memory that --target or --device-memory allow a rank's plan.
struct MemoryLimit {
  std::string name;     // of the target, or "the device"
  int64_t capacity = 0; // of the device, bytes
  int64_t reserve = 0;  // of it for library contexts
  int64_t host = 0;     // main memory per rank; 0: not stated
  int64_t available() const { return capacity - reserve; }
};

/// The table of named targets, as dsplan --target list prints it.
std::string targetList();

/// The target that the config names, if any.
StatusOr<std::optional<Target>> targetOf(const PlanConfig &c);
/// None if neither a target nor a size is given. Errors: unknown targets, a reserve that leaves nothing.
StatusOr<std::optional<MemoryLimit>> memoryLimit(const PlanConfig &c);

/// "h.*.attn.softmax (12) 144.0 MiB".
std::string partText(const MemoryPart &p);

/// "fits, 9.2 GiB spare", or "short 3.1 GiB: logits 12.0 GiB, ...": the largest parts of the peak, as many as
/// make up what is missing, at most three.
std::string verdictText(const MemoryReport &m, const MemoryLimit &limit);

/// An error with Code::DoesNotFit if an arena of the schedule needs more than the config's limits.
Status checkFits(const Schedule &s, const PlanConfig &c);

} // namespace ds
