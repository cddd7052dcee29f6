// SPDX-License-Identifier: Apache-2.0
#include "runtime/Buckets.h"

#include <algorithm>

namespace ds {

std::vector<DsRun> bucketRuns(const BucketInfo &b, int64_t begin, int64_t end) {
  std::vector<DsRun> runs;
  for (const SegmentInfo &g : b.segments) {
    int64_t lo = std::max(begin, g.at), hi = std::min(end, g.at + Type(b.dtype, g.shape).elems());
    if (lo < hi)
      runs.push_back({lo - begin, hi - begin, static_cast<int32_t>(g.group)});
  }
  std::sort(runs.begin(), runs.end(),
            [](const DsRun &x, const DsRun &y) { return x.begin < y.begin; });
  return runs;
}

} // namespace ds
