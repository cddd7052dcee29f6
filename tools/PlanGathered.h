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

} // namespace ds
