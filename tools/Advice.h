// SPDX-License-Identifier: Apache-2.0
//
// What to do about a plan that does not fit: the flags of the cheapest change that does, really planned.
#pragma once

#include "tools/Changes.h"

namespace ds {

/// Adds notes to an error of checkFits or chooseOffload: where the space that is too small is fullest and with what, and the
/// flags of the change that fits at the least predicted time; if none does, the least memory that was reached, and the number
/// of ranks that suffices. s: the plan of the model's config; null: --offload auto found none. changes: of loweringChanges, if
/// they are known. Other errors stay as they are.
Status withAdvice(Status misfit, const LoadedModel &model, const Schedule *s, int threads = 0,
                  const std::vector<PlannedChange> *changes = nullptr);

} // namespace ds
