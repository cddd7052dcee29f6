// SPDX-License-Identifier: Apache-2.0
//
// What dsplan tells people: assumptions, parameters, and memory and traffic of stages 0 to 3 side by side.
#pragma once

#include "tools/PlanArgs.h"

namespace ds {

/// fits becomes an error with Code::DoesNotFit if the config's stage needs more than its memory limit. explain: with what would
/// lower the peak, which small plans always tell, and those that do not fit.
StatusOr<std::string> summaryText(const LoadedModel &model, Status &fits, bool explain);
StatusOr<std::string> summaryJson(const LoadedModel &model, Status &fits, bool explain);
/// Every buffer with offset, bytes and life, by program.
std::string memoryText(const Schedule &s);

} // namespace ds
