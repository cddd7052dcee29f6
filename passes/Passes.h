// SPDX-License-Identifier: Apache-2.0
//
// Declarations of all passes, expanded from the table. What each does: its file's first comment.
#pragma once

#include "frontend/Config.h"
#include "ir/Graph.h"
#include "ir/Schedule.h"

namespace ds {

#define PASS(flag, function, requires_, provides, summary)                                         \
  Status function(Module &, const PlanConfig &);
#include "passes/Passes.def"
#undef PASS

/// True if gradients are reduced once per window (stages 0 and 1 under accumulation, or --reduce boundary)
/// and not in every micro-batch.
bool reducesAtBoundary(const PlanConfig &c);

/// Takes every dropout of a program out, and the input that its random numbers come from.
void removeDropout(Module &m, Program &p);

/// Instructions and buffers of a module with programs: what has bytes and takes time, but no waits, lives or offsets yet.
StatusOr<Schedule> emitSchedule(const Module &m, const PlanConfig &c);
/// Lowers it to a schedule: instructions, storage, waits, lifetimes, offsets, arenas.
StatusOr<Schedule> scheduleModule(const Module &m, const PlanConfig &c);

/// The whole planner: default pipeline, scheduleModule, verifySchedule.
StatusOr<Schedule> planSchedule(Module &m, const PlanConfig &c);

} // namespace ds
