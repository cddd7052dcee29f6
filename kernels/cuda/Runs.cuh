// SPDX-License-Identifier: Apache-2.0
//
// A bucket operand's runs as launch parameters: the second axis of the grid goes through them.
#pragma once

#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

struct RunList {
  static constexpr int kMost = 100; // parameters of a kernel have 4 KiB
  int count = 0;
  DsRun runs[kMost];
};

/// f(RunList, elements of its longest run) for all runs of operand i; without runs it is one run of group 0.
template <typename F> const char *forEachRunList(const DsLaunch &l, int32_t i, F f) {
  const DsRun whole = {0, elems(l.ins[i]), 0};
  bool given = l.runs && l.runs[i];
  const DsRun *runs = given ? l.runs[i] : &whole;
  int32_t n = given ? l.numRuns[i] : 1;
  for (int32_t first = 0; first < n; first += RunList::kMost) {
    RunList list;
    int64_t longest = 0;
    for (int32_t k = first; k < n && list.count < RunList::kMost; ++k) {
      list.runs[list.count++] = runs[k];
      longest = std::max(longest, runs[k].end - runs[k].begin);
    }
    if (longest > 0)
      if (const char *message = f(list, longest))
        return message;
  }
  return nullptr;
}

/// Elements [begin, end) of the run that this block works on.
__device__ inline DsRun runOf(const RunList &list) { return list.runs[blockIdx.y]; }

} // namespace ds::cuda
