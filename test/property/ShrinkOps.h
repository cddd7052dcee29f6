// SPDX-License-Identifier: Apache-2.0
//
// Shrinking of a case's modules, op by op.
#pragma once

#include "test/property/Shrink.h"

namespace ds::property {

/// Replaces ops of both modules by their operands or by zeros while the kind of failure remains. Returns the number
/// of calls of fails, at most budget.
int shrinkOps(Case &best, Failure &failure, const Predicate &fails, int budget);

} // namespace ds::property
