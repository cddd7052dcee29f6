// SPDX-License-Identifier: Apache-2.0
//
// dsplan --layout and --check-layout: packing problems from files, without a model.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <string>

namespace ds {

struct LayoutReport {
  std::string summary;
  std::string csv; // the answer; empty if it does not fit
  Status verdict;  // DoesNotFit if no packing within the capacity was found
};

/// Packs the buffers of a CSV file. capacity in bytes, 0: none, the smallest height is looked for. seconds of wall time,
/// 0: the effort is counted, and the answer always the same.
StatusOr<LayoutReport> layOut(const std::string &path, int64_t capacity, double seconds);

/// Checks the offsets of a CSV file.
StatusOr<LayoutReport> checkLayout(const std::string &path, int64_t capacity);

} // namespace ds
