// SPDX-License-Identifier: Apache-2.0
//
// What a plan is for: memory and rates of one rank's device. Named ones are rows of Targets.def; others come
// from JSON files (docs/targets.md). Only memory decides anything; rates give the least times of the summary.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct Target {
  std::string name, summary;
  int64_t deviceMemory = 0; // bytes; 0: this machine's memory, shared by the ranks
  int64_t hostMemory = 0;   // bytes per rank; 0: not stated
  int64_t reserve = 0;      // bytes of device memory that library contexts take beside the plan
  double memoryRate = 0, linkRate = 0; // bytes per second; 0: not stated
  double flopsF32 = 0, flops16Bit = 0; // per second; 0: not stated

  /// Bytes of one rank's device, when `world` ranks are planned.
  int64_t deviceBytes(int64_t world) const;
};

/// The rows of Targets.def, in the table's order.
const std::vector<Target> &targetTable();

/// NAME of a row, in any case, or FILE.json. Errors: unknown name with the nearest, and all that parseTarget says.
StatusOr<Target> findTarget(const std::string &nameOrFile);

/// A target as JSON text that came from `file`. Errors carry file:line:col: syntax, unknown keys with the nearest,
/// wrong types and ranges, a missing device_memory.
StatusOr<Target> parseTarget(std::string_view text, const std::string &file);

} // namespace ds
