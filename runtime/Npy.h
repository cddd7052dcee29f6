// SPDX-License-Identifier: Apache-2.0
//
// Reads NumPy's .npy headers (versions 1 to 3): C order, little-endian numbers and booleans.
#pragma once

#include "ir/DType.h"
#include "runtime/File.h"

#include <vector>

namespace ds {

struct NpyHeader {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  int64_t dataOffset = 0;

  int64_t elems() const;
};

/// Also checks that the file is as long as the header says.
StatusOr<NpyHeader> readNpyHeader(const File &file);

} // namespace ds
