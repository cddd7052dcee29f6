// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's calls return, as the messages of kernels/Kernel.h. Without device code: the host's compiler reads it, too.
#pragma once

#include <cuda_runtime.h>

namespace ds::cuda {

/// Null for success, else "call: name (text)" until the thread's next failure.
const char *checked(cudaError_t e, const char *call);
/// printf into the same place.
const char *failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CUDA_TRY(call)                                                                             \
  if (const char *dsMessage = ::ds::cuda::checked(call, #call))                                    \
  return dsMessage

} // namespace ds::cuda
