// SPDX-License-Identifier: Apache-2.0
//
// Which elements dropout keeps: the same on every device, rank and split of a batch. Element e of sample s takes word e % 4
// of the block e / 4 that Philox draws in stream s; the key is drawn from the run's seed and the op's own key. An element
// stays if its word is not below ratio x 2^32.
#pragma once

#include "ir/Philox.h"
#include "kernels/Kernel.h"

#include <algorithm>

namespace ds {

struct DropoutMath {
  uint64_t key = 0;
  uint64_t firstSample = 0;
  int64_t rowElems = 1; // of one sample
  uint32_t below = 0;   // words below it drop their element
  double scale = 1;

  /// In run(), when the operands are there.
  explicit DropoutMath(const DsLaunch &l) {
    const auto *rng = static_cast<const uint64_t *>(l.ins[1].data);
    // Streams from the end: those from the start permute the data under the same seed.
    key = Philox{rng[0], ~static_cast<uint64_t>(attr(l, "key").i)}.bits(0);
    firstSample = rng[l.ins[1].strides[0]];
    rowElems = std::max<int64_t>(1, elems(l.ins[0]) / std::max<int64_t>(1, attr(l, "rows").i));
    double ratio = attr(l, "ratio").f;
    below = static_cast<uint32_t>(std::min(ratio * 0x1p32, 0x1p32 - 1));
    scale = 1 / (1 - ratio);
  }

  Philox stream(int64_t row) const { return {key, firstSample + static_cast<uint64_t>(row)}; }
  /// Element `e` of x in row-major order.
  bool keeps(int64_t e) const {
    auto inRow = static_cast<uint64_t>(e % rowElems);
    return stream(e / rowElems).block(inRow / 4)[inRow % 4] >= below;
  }
};

} // namespace ds
