// SPDX-License-Identifier: Apache-2.0
//
// Products by tensor cores, and what feeds them, for sums in f32 of 16-bit elements. A warp owns 16 rows of a tile. In
// registers, a lane holds of a factor or a sum what PTX says for mma.m16n8k16: with g = lane / 4 and t = lane % 4,
//   a (16 x 16): rows g, g + 8, g, g + 8 of columns 2t, 2t + 1 (registers 0, 1) and 2t + 8, 2t + 9 (2, 3)
//   b (16 x 8):  rows 2t, 2t + 1 (register 0) and 2t + 8, 2t + 9 (1) of column g
//   c (16 x 8):  columns 2t, 2t + 1 of row g (elements 0, 1) and row g + 8 (2, 3)
// In shared memory, matrices are words of two elements; rows begin at multiples of 16 bytes.
#pragma once

#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

/// Two elements in a word, the first one in its low half.
template <typename T> __device__ inline uint32_t packed(float low, float high) {
#ifdef DS_CUDA_EMULATED
  return rounded<T>(low).bits | static_cast<uint32_t>(rounded<T>(high).bits) << 16;
#else
  uint32_t word;
  if constexpr (std::is_same_v<T, BF16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#endif
}
template <typename T> __device__ inline float lowOf(uint32_t word) {
  return value(T{static_cast<uint16_t>(word)});
}
template <typename T> __device__ inline float highOf(uint32_t word) {
  return value(T{static_cast<uint16_t>(word >> 16)});
}

/// c += a b. All lanes of the warp must call it; so the compiler must not move it to where some of them go, as it may what is not
/// volatile.
template <typename T>
__device__ inline void mma16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef DS_CUDA_EMULATED
  emulated::mma16816(c, a, b0, b1, std::is_same_v<T, BF16>, __FILE__, __LINE__);
#else
  if constexpr (std::is_same_v<T, BF16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Four 8 x 8 matrices, of which lane l says where row l % 8 of matrix l / 8 begins. Transposed: as if rows were columns.
template <bool kTransposed, typename S>
__device__ inline void loadMatrices(uint32_t (&to)[4], const S &from, int word) {
#ifdef DS_CUDA_EMULATED
  emulated::loadMatrices<kTransposed>(to, from, word, __FILE__, __LINE__);
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(&from[word]));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
#endif
}

/// Copies of 16 bytes from global to shared memory, which go on while their thread computes.
class AsyncCopies {
public:
  /// Words [word, word + 4); zeros if there is nothing to read. `from` must be aligned to 16 bytes.
  template <typename S> __device__ void add(S &to, int word, const void *from, bool any) {
#ifdef DS_CUDA_EMULATED
    pending.add(to, word, any ? from : nullptr);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(&to[word]))),
                 "l"(__cvta_generic_to_global(from)), "r"(any ? 16 : 0)
                 : "memory");
#endif
  }
  /// Until all copies of this thread are done; others see them behind a barrier.
  __device__ void wait() {
#ifdef DS_CUDA_EMULATED
    pending.wait();
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

private:
#ifdef DS_CUDA_EMULATED
  emulated::PendingCopies pending;
#endif
};

} // namespace ds::cuda
