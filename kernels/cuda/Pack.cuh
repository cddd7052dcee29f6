// SPDX-License-Identifier: Apache-2.0
//
// Accesses of 16 bytes: a warp that reads whole rows so has the fewest instructions per byte.
#pragma once

#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

/// Elements that lie side by side. At an address that is a multiple of 16.
template <typename T> struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T of[kCount];
};

/// Whether packs can lie at p.
__host__ __device__ inline bool isPacked(const void *p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

} // namespace ds::cuda
