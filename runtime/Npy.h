// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy files (versions 1 to 3): C order, little-endian numbers and booleans.
#pragma once

#include "ir/Array.h"
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

StatusOr<Array> readNpy(const std::string &path);
/// NumPy has no bf16: such an array is written as f32, which holds it exactly.
Status writeNpy(const std::string &path, const Array &a);

} // namespace ds
