// SPDX-License-Identifier: Apache-2.0
//
// dsopt --verify-schedule: .dsched text in, verified, the same schedule out.
#pragma once

#include "ir/Status.h"

#include <string>

namespace ds {

/// Parses and verifies a schedule and appends its print to `out`. An error if the print does not read back
/// to itself, too (that one is our bug).
Status checkSchedule(const std::string &text, const std::string &path, std::string &out);

} // namespace ds
