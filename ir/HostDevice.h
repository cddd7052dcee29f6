// SPDX-License-Identifier: Apache-2.0
//
// Marks arithmetic that must be the same operations on the host and in CUDA kernels.
#pragma once

#ifdef __CUDACC__
#define DS_HOST_DEVICE __host__ __device__
#else
#define DS_HOST_DEVICE
#endif
