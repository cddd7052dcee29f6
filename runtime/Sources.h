// SPDX-License-Identifier: Apache-2.0
//
// Initial contents of parameters and constants from their Source. A rank asks for the element range it
// owns, and only those bytes of a file are read (D3).
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// A tensor with a source: `total` elements of `dtype`.
struct SourceTensor {
  std::string_view name;
  const Source *source;
  int64_t total;
  DType dtype;
};

/// Writes elements [begin, begin + n) of the tensor to dst. Errors name the tensor and the file.
Status readSource(const SourceTensor &t, const std::string &directory, int64_t begin, int64_t n,
                  void *dst);

/// Everything that can be wrong with the schedule's sources without reading their data: files that are
/// missing, too short (wanted and available bytes) or outside the directory. Reports all.
Status checkSources(const Schedule &s);

} // namespace ds
