// SPDX-License-Identifier: Apache-2.0
//
// Which elements of a bucket are a parameter's, as kernels want it.
#pragma once

#include "ir/BucketMap.h"
#include "kernels/Kernel.h"

namespace ds {

/// The runs of a buffer of `elems` elements that holds the bucket whole, or rank's slice of it (then positions
/// count from the slice's start). One run for each segment: sums never cross parameters.
std::vector<DsRun> bucketRuns(const BucketInfo &b, int64_t elems, int64_t rank, int64_t world);

} // namespace ds
