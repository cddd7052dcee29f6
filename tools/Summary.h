// SPDX-License-Identifier: Apache-2.0
//
// What dsplan tells people: assumptions, parameters, and memory and traffic of stages 0 to 3 side by side.
#pragma once

#include "tools/PlanArgs.h"

namespace ds {

/// fits becomes an error with Code::DoesNotFit if the config's stage needs more than its memory limit.
StatusOr<std::string> summaryText(const LoadedModel &model, Status &fits);
StatusOr<std::string> summaryJson(const LoadedModel &model, Status &fits);
/// Every buffer with offset, bytes and life, by program.
std::string memoryText(const Schedule &s);

} // namespace ds
