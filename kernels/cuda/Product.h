// SPDX-License-Identifier: Apache-2.0
//
// One matrix product: by cuBLASLt, or without tensor cores what it does not take (integers, operands without a contiguous
// axis) or where it is missing.
#pragma once

#include "kernels/cuda/LtMatmul.h"

#include <string>

namespace ds::cuda {

class Product {
public:
  const char *prepare(const MatmulShape &s, const LtTypes &t, size_t workBytes);
  bool isByLibrary() const { return byLibrary; }
  /// A and B as in the shape, i.e. exchanged if it is `swapped`; work: as much as prepare was told of. bias: null, or what our
  /// kernel, not the library, adds to every row (column, if swapped), with its stride.
  const char *run(const void *a, const void *b, void *c, void *work, cudaStream_t stream,
                  const void *bias = nullptr, int64_t biasStep = 0) const;
  /// What the library has chosen; empty: our own kernel.
  const std::string &note() const { return text; }

private:
  MatmulShape shape;
  LtTypes types;
  bool byLibrary = false;
  LtMatmul library;
  std::string text;
};

} // namespace ds::cuda
