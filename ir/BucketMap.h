// SPDX-License-Identifier: Apache-2.0
//
// Which bucket a buffer's elements belong to. The schedule says it for the buckets themselves; it is carried
// along gathers, reductions, accumulators and optimizers to gradients and state, so no name is interpreted.
#pragma once

#include "ir/Schedule.h"

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

} // namespace ds
