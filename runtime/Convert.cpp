// SPDX-License-Identifier: Apache-2.0
#include "runtime/Convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ds {

float bf16ToFloat(uint16_t v) { return std::bit_cast<float>(uint32_t(v) << 16); }

uint16_t floatToBf16(float v) {
  auto bits = std::bit_cast<uint32_t>(v);
  if (std::isnan(v))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f16ToFloat(uint16_t v) {
  uint32_t sign = uint32_t(v & 0x8000) << 16;
  int exponent = (v >> 10) & 0x1f;
  uint32_t fraction = v & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                  : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  return sign ? -magnitude : magnitude;
}

uint16_t floatToF16(float v) {
  auto bits = std::bit_cast<uint32_t>(v);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  float a = std::fabs(v);
  if (std::isnan(v))
    return sign | 0x7e00;
  if (a >= 65520.0f) // halfway between the largest finite value and the next
    return sign | 0x7c00;
  if (a < 0x1p-14f) // subnormal: multiples of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24f));
  auto magnitude = std::bit_cast<uint32_t>(a);
  magnitude += 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((magnitude >> 13) - (112u << 10));
}

template <DType> struct StoreOf;
#define DTYPE(kind, text, bytes, ctype, onnx, safe)                                                \
  template <> struct StoreOf<DType::kind> { using Type = ctype; };
#include "ir/DTypes.def"
#undef DTYPE

// A float as an integer: truncated, NaN is 0, values outside go to the nearer end.
template <typename I> static I truncate(double v) {
  if (std::isnan(v))
    return 0;
  if (v <= static_cast<double>(std::numeric_limits<I>::min()))
    return std::numeric_limits<I>::min();
  if (v >= static_cast<double>(std::numeric_limits<I>::max()))
    return std::numeric_limits<I>::max();
  return static_cast<I>(v);
}

template <DType t> struct Wide {
  using Store = typename StoreOf<t>::Type;

  static auto get(const void *p, int64_t i) {
    Store v;
    std::memcpy(&v, static_cast<const char *>(p) + i * static_cast<int64_t>(sizeof v), sizeof v);
    if constexpr (t == DType::BF16)
      return bf16ToFloat(v);
    else if constexpr (t == DType::F16)
      return f16ToFloat(v);
    else
      return v;
  }
  template <typename V> static void put(void *p, int64_t i, V value) {
    Store v;
    if constexpr (t == DType::BF16)
      v = floatToBf16(static_cast<float>(value));
    else if constexpr (t == DType::F16)
      v = floatToF16(static_cast<float>(value));
    else if constexpr (t == DType::Bool)
      v = value != V(0);
    else if constexpr (std::is_integral_v<Store> && std::is_floating_point_v<V>)
      v = truncate<Store>(static_cast<double>(value));
    else
      v = static_cast<Store>(value);
    std::memcpy(static_cast<char *>(p) + i * static_cast<int64_t>(sizeof v), &v, sizeof v);
  }
};

// Calls f with the compile-time element type.
template <typename F> static void dispatch(DType t, F f) {
  switch (t) {
#define DTYPE(kind, text, bytes, ctype, onnx, safe)                                                \
  case DType::kind:                                                                                \
    return f(std::integral_constant<DType, DType::kind>());
#include "ir/DTypes.def"
#undef DTYPE
  }
}

void convert(DType to, void *dst, DType from, const void *src, int64_t n) {
  if (n == 0) // rows without elements have no memory
    return;
  if (to == from) {
    std::memcpy(dst, src, static_cast<size_t>(n * byteSize(to)));
    return;
  }
  dispatch(to, [&](auto toType) {
    dispatch(from, [&](auto fromType) {
      for (int64_t i = 0; i < n; ++i)
        Wide<toType()>::put(dst, i, Wide<fromType()>::get(src, i));
    });
  });
}

double toDouble(DType t, const void *data, int64_t i) {
  double out = 0;
  dispatch(t, [&](auto type) { out = static_cast<double>(Wide<type()>::get(data, i)); });
  return out;
}

int64_t toInt(DType t, const void *data, int64_t i) {
  int64_t out = 0;
  dispatch(t, [&](auto type) { Wide<DType::I64>::put(&out, 0, Wide<type()>::get(data, i)); });
  return out;
}

} // namespace ds
