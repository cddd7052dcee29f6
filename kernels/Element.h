// SPDX-License-Identifier: Apache-2.0
//
// C++ types for the element types, and dispatch on a tensor's dtype. Compute<T> is the type arithmetic is
// done in: T itself, and float for the 16-bit types, which round to nearest even when they are stored.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ds::elem {

/// The 16-bit float with that many exponent and stored fraction bits nearest to v (ties to even).
template <int kExponent, int kFraction> inline uint16_t packHalf(double v) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint16_t kInf = ((1 << kExponent) - 1) << kFraction;
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  v = std::fabs(v);
  if (std::isnan(v))
    return sign | kInf | (1 << (kFraction - 1));
  if (std::isinf(v))
    return sign | kInf;
  int exponent = v == 0 ? 1 - kBias : std::ilogb(v);
  if (exponent < 1 - kBias)
    exponent = 1 - kBias;                                             // subnormal: fixed spacing
  double units = std::nearbyint(std::ldexp(v, kFraction - exponent)); // 0 .. 2^(kFraction + 1)
  if (exponent > kBias)
    return sign | kInf;
  // Adding the fraction to the exponent field carries into it when rounding reached the next power.
  auto bits =
      static_cast<uint32_t>(units) + (static_cast<uint32_t>(exponent + kBias - 1) << kFraction);
  return sign | static_cast<uint16_t>(bits < kInf ? bits : kInf);
}

struct BF16 {
  uint16_t bits;
  static BF16 from(double v) { return {packHalf<8, 7>(v)}; }
  float value() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct F16 {
  uint16_t bits;
  static F16 from(double v) { return {packHalf<5, 10>(v)}; }
  float value() const {
    // As a float with 112 less in its exponent, subnormals included; the product is exact.
    uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
    float v = std::bit_cast<float>(magnitude) * 0x1p112f;
    if (magnitude >= 0x0f800000u) // infinities and NaN
      v = std::bit_cast<float>(magnitude | 0x7f800000u);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(v) | sign);
  }
};

struct Bool {
  uint8_t bits; // 0 or 1 when stored; any other value reads as true
};

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
template <typename T> inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <typename T>
using Compute =
    std::conditional_t<kIsHalf<T>, float, std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;

template <typename T> inline Compute<T> load(const T &v) {
  if constexpr (kIsHalf<T>)
    return v.value();
  else if constexpr (std::is_same_v<T, Bool>)
    return v.bits != 0;
  else
    return v;
}

/// Rounds a double or Compute<T> to T.
template <typename T, typename V> inline T store(V v) {
  if constexpr (kIsHalf<T>)
    return T::from(static_cast<double>(v));
  else if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<uint8_t>(v != V(0))};
  else
    return static_cast<T>(v);
}

/// A double as an integer type: truncated; NaN is 0, values outside are the nearer end.
template <typename T> inline T truncateTo(double v) {
  if (std::isnan(v))
    return 0;
  constexpr double kEnd = // exclusive
      static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  if (v >= kEnd)
    return std::numeric_limits<T>::max();
  if (v <= static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  return static_cast<T>(v);
}

template <typename T> struct Tag { using Type = T; };

template <bool kFloats, bool kInts, bool kBool, typename F>
const char *dispatchKinds(uint8_t t, F f) {
  switch (static_cast<DType>(t)) {
#define CASE(kind, type)                                                                           \
  case DType::kind:                                                                                \
    return f(Tag<type>());
  case DType::F64:
  case DType::F32:
  case DType::BF16:
  case DType::F16:
    if constexpr (kFloats) {
      switch (static_cast<DType>(t)) {
        CASE(F64, double)
        CASE(F32, float)
        CASE(BF16, BF16)
        CASE(F16, F16)
      default:
        break;
      }
    }
    break;
  case DType::Bool:
    if constexpr (kBool)
      return f(Tag<Bool>());
    break;
  default:
    if constexpr (kInts) {
      switch (static_cast<DType>(t)) {
        CASE(I64, int64_t)
        CASE(I32, int32_t)
        CASE(I16, int16_t)
        CASE(I8, int8_t)
        CASE(U64, uint64_t)
        CASE(U32, uint32_t)
        CASE(U16, uint16_t)
        CASE(U8, uint8_t)
      default:
        break;
      }
    }
#undef CASE
  }
  return "the kernel does not take this element type";
}

/// f(Tag<T>) for the dtype; f returns null or a message.
template <typename F> const char *dispatchFloat(uint8_t t, F f) {
  return dispatchKinds<true, false, false>(t, f);
}
template <typename F> const char *dispatchNumber(uint8_t t, F f) {
  return dispatchKinds<true, true, false>(t, f);
}
template <typename F> const char *dispatchAny(uint8_t t, F f) {
  return dispatchKinds<true, true, true>(t, f);
}
/// f32 and f64 only.
template <typename F> const char *dispatchArith(uint8_t t, F f) {
  switch (static_cast<DType>(t)) {
  case DType::F64:
    return f(Tag<double>());
  case DType::F32:
    return f(Tag<float>());
  default:
    return "the kernel takes f32 and f64 only";
  }
}
/// f(Tag<unsigned integer>) of the element's size, for kernels that only move elements.
template <typename F> const char *dispatchSize(uint8_t t, F f) {
  switch (byteSize(static_cast<DType>(t))) {
  case 1:
    return f(Tag<uint8_t>());
  case 2:
    return f(Tag<uint16_t>());
  case 4:
    return f(Tag<uint32_t>());
  case 8:
    return f(Tag<uint64_t>());
  default:
    return "unknown element type";
  }
}

template <typename T> T *dataOf(const DsTensor &t) { return static_cast<T *>(t.data); }

} // namespace ds::elem
