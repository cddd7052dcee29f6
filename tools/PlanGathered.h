// SPDX-License-Identifier: Apache-2.0
//
// Memory that a plan leaves free holds gathered or fetched parameters from forward to backward.
#pragma once

#include "tools/PlanArgs.h"

namespace ds {

/// Where keep_gathered is not given and a limit of memory is, sets it to as many buckets as fit, if the predicted time of an
/// update falls by it; an assumption says so. Values that are computed again need the memory more: then nothing changes. Two
/// more plans at most.
Status chooseGathered(LoadedModel &model);

/// Of a plan that fits: the most buckets, the last ones that a micro-batch brings to the device, for which its memory has room
/// beside those that stay already; 0 where bringing them takes no time that shows. total: of all that are brought.
StatusOr<int64_t> roomForGathered(const RecomputePlan &p, const PlanConfig &c, int64_t &total);
/// The assumption that says so.
std::string keptText(int64_t kept, int64_t total);

} // namespace ds
