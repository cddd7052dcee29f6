// SPDX-License-Identifier: Apache-2.0
//
// Which bucket a buffer's elements belong to, and which of them are a parameter's. The schedule says it for
// the buckets themselves; it is carried along gathers, reductions, accumulators and optimizers to gradients
// and state, so no name is interpreted.
#pragma once

#include "ir/Schedule.h"
#include "kernels/Kernel.h"

namespace ds {

class BucketMap {
public:
  explicit BucketMap(const Schedule &s);
  /// Index into Schedule::buckets, or -1. `buffer` in the numbering of SchedProgram.
  int bucketOf(size_t program, int buffer) const;

private:
  size_t slot(size_t program, int buffer) const;
  size_t persistent = 0;
  std::vector<size_t> firstOwn; // by program
  std::vector<int> buckets;     // by slot
};

/// The runs of a buffer of `elems` elements that holds the bucket whole, or rank's slice of it (then positions
/// count from the slice's start). One run for each segment: sums never cross parameters.
std::vector<DsRun> bucketRuns(const BucketInfo &b, int64_t elems, int64_t rank, int64_t world);

} // namespace ds
