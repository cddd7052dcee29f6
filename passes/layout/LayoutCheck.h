// SPDX-License-Identifier: Apache-2.0
//
// Proof of a packing by code that shares nothing with what made it.
#pragma once

#include "passes/layout/Layout.h"

#include <optional>

namespace ds {

struct LayoutFault {
  enum Kind { BelowZero, TooHigh, Overlap } kind; // TooHigh: offset + bytes passes 2^62
  int a, b;                                       // indices of items; b only of an overlap, a < b
};

/// The first fault in order of time, if two buffers that live at the same time share a byte, or one lies
/// outside of [0, 2^62). O(n log n).
std::optional<LayoutFault> findFault(const std::vector<PackItem> &items);

} // namespace ds
