// SPDX-License-Identifier: Apache-2.0
//
// The ways to treat one block: which of its launches backward repeats.
#pragma once

#include "passes/RecomputeModel.h"

namespace ds {

/// Launches that belong together, by index, in order.
using Launches = std::vector<int>;

/// By price of a kept byte: for every price the set of launches whose repetition costs least seconds, plus the price of what
/// must be kept for it. From nothing repeated to least bytes kept, at most `most` sets; each gives, by position in the
/// block, whether it is repeated. What launches outside of the block read is kept.
std::vector<std::vector<bool>> blockOptions(const RecomputeModel &m, const Launches &block,
                                            size_t most = 12);

} // namespace ds
