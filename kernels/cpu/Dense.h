// SPDX-License-Identifier: Apache-2.0
//
// Dense<K> lets a kernel K that is written for row-major tensors take any strides: operands that are not
// row-major are copied into the workspace first, results are computed there and copied out last.
#pragma once

#include "kernels/cpu/Copy.h"

#include <vector>

namespace ds::cpu {

/// The copies and the row-major view of a launch.
class Staging {
public:
  /// Bytes of workspace for the staged tensors alone.
  static size_t bytes(const DsLaunch &l);
  /// `at`: where in the workspace the staged tensors begin.
  const char *init(const DsLaunch &l, size_t at);
  /// The launch with row-major operands; also valid in prepare, with null data.
  const DsLaunch &begin(const DsLaunch &l);
  void end(const DsLaunch &l) const;

private:
  struct Staged {
    int index = 0;
    size_t at = 0;
    std::array<int64_t, kMaxRank> dense{}; // row-major strides
    StridedCopy copy;
  };
  const char *add(const DsLaunch &l, const DsTensor &t, int i, bool isOut, size_t &at);
  std::vector<DsTensor> ins, outs;
  std::vector<Staged> stagedIns, stagedOuts;
  DsLaunch dense{};
};

template <class K> class Dense {
public:
  static size_t work(const DsLaunch &l) { return own(l) + Staging::bytes(l); }
  const char *prepare(const DsLaunch &l) {
    if (l.workBytes < work(l))
      return "the plan's workspace is smaller than this kernel needs";
    if (const char *message = staging.init(l, own(l)))
      return message;
    return kernel.prepare(staging.begin(l));
  }
  const char *run(const DsLaunch &l) {
    const char *message = kernel.run(staging.begin(l));
    if (!message)
      staging.end(l);
    return message;
  }

private:
  static size_t own(const DsLaunch &l) {
    if constexpr (requires { K::work(l); })
      return alignUp(K::work(l));
    else
      return 0;
  }
  Staging staging;
  K kernel;
};

} // namespace ds::cpu
