// SPDX-License-Identifier: Apache-2.0
//
// A dense tensor in memory, as files of arrays hold it: little-endian elements in row-major order.
#pragma once

#include "ir/DType.h"

#include <string>
#include <vector>

namespace ds {

struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  std::string bytes; // elems() x byteSize(dtype)

  int64_t elems() const {
    int64_t n = 1;
    for (int64_t d : dims)
      n *= d;
    return n;
  }
};

} // namespace ds
