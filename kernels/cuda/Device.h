// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/Cuda.h"

namespace ds::cuda {

extern const DsDeviceApi kApi;

/// DsDeviceApi::sum (Collectives.cu).
const char *sumRanks(void *dst, const void *const *src, int32_t count, int64_t n, uint8_t dtype,
                     void *stream);

} // namespace ds::cuda
