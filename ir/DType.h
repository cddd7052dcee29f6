// SPDX-License-Identifier: Apache-2.0
//
// Element types, expanded from DTypes.def. Plain enum and functions: kernels and plugins include this.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ds {

enum class DType : uint8_t {
#define DTYPE(kind, text, bytes, ctype, onnx, safe) kind,
#include "ir/DTypes.def"
#undef DTYPE
};

/// Size of one element in bytes.
constexpr int64_t byteSize(DType t) {
  switch (t) {
#define DTYPE(kind, text, bytes, ctype, onnx, safe)                                                \
  case DType::kind:                                                                                \
    return bytes;
#include "ir/DTypes.def"
#undef DTYPE
  }
  return 0;
}

constexpr bool isFloat(DType t) { return t <= DType::F16; }
constexpr bool isInt(DType t) { return t > DType::F16 && t != DType::Bool; }

std::string_view text(DType t);
std::string_view safetensorsName(DType t);
int onnxEnum(DType t);
std::optional<DType> dtypeFromText(std::string_view s);
std::optional<DType> dtypeFromOnnx(int e);
std::optional<DType> dtypeFromSafetensors(std::string_view s);

/// The type in which sums, moments and master weights of t are kept: f64 for f64, else f32 (D7).
constexpr DType accumType(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

/// The largest finite value of a float type.
constexpr double largest(DType t) {
  return t == DType::F16    ? 65504.0
         : t == DType::BF16 ? 0x1.FEp127
         : t == DType::F32  ? 0x1.FFFFFEp127
                            : 0x1.FFFFFFFFFFFFFp1023;
}

/// The most axes a value may have; kernels keep per-axis counters in arrays of this size.
inline constexpr int kMaxRank = 16;

} // namespace ds
