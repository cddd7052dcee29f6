// SPDX-License-Identifier: Apache-2.0
//
// Which elements of a bucket are a parameter's, as kernels want it.
#pragma once

#include "ir/BucketMap.h"
#include "kernels/Kernel.h"

namespace ds {

/// The runs of a buffer that holds elements [begin, end) of the bucket; positions count from begin. One run for each
/// segment: sums never cross parameters.
std::vector<DsRun> bucketRuns(const BucketInfo &b, int64_t begin, int64_t end);

} // namespace ds
