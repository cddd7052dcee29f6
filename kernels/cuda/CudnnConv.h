// SPDX-License-Identifier: Apache-2.0
//
// One convolution, or a gradient of one, by cuDNN: described and its algorithm chosen once, by shape alone, of those whose bits
// are the same every time. f32 sums, without TF32.
#pragma once

#include "kernels/CudnnShape.h"
#include "kernels/cuda/Check.h"

#include <memory>
#include <string>

namespace ds::cuda {

class CudnnConv {
public:
  CudnnConv();
  ~CudnnConv();
  /// *taken: whether the library computes this; if not, our kernel does. *note: for people, empty where there is no library.
  const char *prepare(const DsLaunch &l, ConvKind kind, bool *taken, std::string *note);
  /// Whether the addresses are such as the library wants; what prepare has taken, our kernel does otherwise.
  static bool isAligned(const DsLaunch &l);
  const char *run(const DsLaunch &l, cudaStream_t stream) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace ds::cuda
