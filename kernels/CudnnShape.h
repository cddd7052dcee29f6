// SPDX-License-Identifier: Apache-2.0
//
// A convolution as cuDNN describes it. Not in the plugin, because plans are made without it and ask what workspace to give.
#pragma once

#include "kernels/ConvLoops.h"

#include <array>

namespace ds {

struct CudnnShape {
  int rank =
      0; // of the tensors: 4 or 5; what has one axis behind the channels gets another before it
  std::array<int, 5> x{}, w{}, y{};
  std::array<int, 3> pad{}, stride{}, dilation{}; // rank - 2 of each
  int groups = 1;
};

/// Null, or why cuDNN does not compute this.
const char *cudnnShape(const ConvShape &s, CudnnShape &out);

} // namespace ds
