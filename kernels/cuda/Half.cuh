// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of elements on the device: as kernels/Element.h, which is the host's. The 16-bit types are computed
// with as float and rounded to nearest even; any NaN becomes one quiet NaN.
#pragma once

#include "kernels/cuda/Cuda.h"

#include <cstring>

namespace ds::cuda {

/// What sums over T are kept in.
template <typename T> using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline uint32_t bitsOf(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  return b;
}
__device__ inline float floatOf(uint32_t b) {
  float v;
  memcpy(&v, &b, 4);
  return v;
}

__device__ inline uint16_t bf16Bits(float v) {
  uint32_t b = bitsOf(v);
  if ((b & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((b >> 16 & 0x8000u) | 0x7fc0u);
  return static_cast<uint16_t>((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}

__device__ inline uint16_t f16Bits(float v) {
  uint32_t b = bitsOf(v), sign = b >> 16 & 0x8000u, magnitude = b & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // rounds beyond 65504
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // subnormal: the addition rounds to multiples of 2^-24
    float rounded = floatOf(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bitsOf(rounded) - 0x3f000000u));
  }
  magnitude += 0xfffu + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u) >> 13));
}

__device__ inline float f16Value(uint16_t bits) {
  uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  float v = floatOf(magnitude) * 0x1p112f;
  if (magnitude >= 0x0f800000u)
    v = floatOf(magnitude | 0x7f800000u);
  return floatOf(bitsOf(v) | sign);
}

template <typename T> __device__ inline Compute<T> value(const T &v) {
  if constexpr (std::is_same_v<T, BF16>)
    return floatOf(static_cast<uint32_t>(v.bits) << 16);
  else if constexpr (std::is_same_v<T, F16>)
    return f16Value(v.bits);
  else if constexpr (std::is_same_v<T, Bool>)
    return v.bits != 0;
  else
    return v;
}

template <typename T, typename V> __device__ inline T rounded(V v) {
  if constexpr (std::is_same_v<T, BF16>)
    return T{bf16Bits(static_cast<float>(v))};
  else if constexpr (std::is_same_v<T, F16>)
    return T{f16Bits(static_cast<float>(v))};
  else if constexpr (std::is_same_v<T, Bool>)
    return T{static_cast<uint8_t>(v != V(0))};
  else
    return static_cast<T>(v);
}

} // namespace ds::cuda
