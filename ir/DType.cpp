// SPDX-License-Identifier: Apache-2.0
#include "ir/DType.h"

namespace ds {

namespace {
struct Row {
  DType kind;
  std::string_view text;
  int onnx;
  std::string_view safe;
};
constexpr Row kRows[] = {
#define DTYPE(kind, text, bytes, ctype, onnx, safe) {DType::kind, text, onnx, safe},
#include "ir/DTypes.def"
#undef DTYPE
};
template <typename Match> std::optional<DType> find(Match match) {
  for (const Row &r : kRows)
    if (match(r))
      return r.kind;
  return std::nullopt;
}
} // namespace

std::string_view text(DType t) { return kRows[static_cast<int>(t)].text; }
std::string_view safetensorsName(DType t) { return kRows[static_cast<int>(t)].safe; }
int onnxEnum(DType t) { return kRows[static_cast<int>(t)].onnx; }

std::optional<DType> dtypeFromText(std::string_view s) {
  return find([&](const Row &r) { return r.text == s; });
}
std::optional<DType> dtypeFromOnnx(int e) {
  return find([&](const Row &r) { return r.onnx == e; });
}
std::optional<DType> dtypeFromSafetensors(std::string_view s) {
  return find([&](const Row &r) { return r.safe == s; });
}

} // namespace ds
