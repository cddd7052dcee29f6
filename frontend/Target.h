// SPDX-License-Identifier: Apache-2.0
//
// What a plan is for: memory and rates of one rank's device. Named ones are rows of Targets.def; others come
// from JSON files (docs/targets.md). Memory decides what fits; rates are what times are predicted with.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

/// The rate that calls of one size reach: bytes, or operations of matrix products, per second.
struct RatePoint {
  double amount = 0, perSecond = 0;
};
/// By increasing amount; at least one.
using RateCurve = std::vector<RatePoint>;

struct Target {
  std::string name, summary;
  int64_t deviceMemory = 0; // bytes; 0: this machine's memory, shared by the ranks
  int64_t hostMemory = 0;   // bytes per rank; 0: not stated
  int64_t reserve = 0;      // bytes of device memory that library contexts take beside the plan
  // Per second; 0: not stated.
  double memoryRate = 0, linkRate = 0;            // bytes
  double networkRate = 0;                         // bytes, out of a machine
  double flopsF32 = 0, flops16Bit = 0;            // operations of matrix products
  double hostLinkRate = 0, hostMemoryRate = 0;    // bytes; the link each way
  double nvmeReadRate = 0, nvmeWriteRate = 0;     // bytes
  double launchSeconds = 0;                       // of every launch and copy, beside its work
  double collectiveSeconds = 0, hopSeconds = 0;   // of a collective, and of each of its steps
  double networkHopSeconds = 0;                   // of a step between machines
  double productFraction = 0, memoryFraction = 0; // of the rates above that kernels reach
  double linkFraction = 0;                        // the same of both links
  int64_t machineRanks = 0;                       // that share a machine; 0: all of them
  int64_t ranks = 0;                              // that rates were measured with; 0: not measured
  std::map<std::string, RateCurve, std::less<>> curves; // measured; by op and type: "softmax f32"
  std::string device = "cpu"; // whose kernels' workspace plans hold: "cpu" or "cuda"

  /// Ranks on one machine, when `world` are planned.
  int64_t perMachine(int64_t world) const;
  /// Bytes of one rank's device, when `world` ranks are planned.
  int64_t deviceBytes(int64_t world) const;
  /// The same target with a default for everything but curves that is not stated, except for the rates of memory,
  /// link and products. `missing`, if given: what was filled in, as "product_fraction 0.7".
  Target withDefaults(std::vector<std::string> *missing = nullptr) const;
};

/// The rows of Targets.def, in the table's order.
const std::vector<Target> &targetTable();

/// NAME of a row, in any case, or FILE.json. Errors: unknown name with the nearest, and all that parseTarget says.
StatusOr<Target> findTarget(const std::string &nameOrFile);

/// A target as JSON text that came from `file`. Errors carry file:line:col: syntax, unknown keys with the nearest,
/// wrong types and ranges, a missing device_memory.
StatusOr<Target> parseTarget(std::string_view text, const std::string &file);

} // namespace ds
