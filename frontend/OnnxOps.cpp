// SPDX-License-Identifier: Apache-2.0
//
// OnnxOps.def as a table.
#include "frontend/OnnxEval.h"

#include <algorithm>

namespace ds {

const std::vector<OnnxOpInfo> &onnxOpTable() {
  static const std::vector<OnnxOpInfo> table = {
#define ONNX_DIRECT(op, since, core, ev)                                                           \
  {#op, since, OpKind::core, nullptr, eval##ev, OnnxOpInfo::Direct, ""},
#define ONNX_CUSTOM(op, since, cv, ev, note)                                                       \
  {#op, since, OpKind::Copy, convert##cv, eval##ev, OnnxOpInfo::Custom, note},
#define ONNX_KNOWN(op, since, ev, note)                                                            \
  {#op, since, OpKind::Copy, nullptr, eval##ev, OnnxOpInfo::KnownOnly, note},
#define ONNX_REFUSED(op, note) {#op, 1, OpKind::Copy, nullptr, nullptr, OnnxOpInfo::Refused, note},
#include "frontend/OnnxOps.def"
#undef ONNX_DIRECT
#undef ONNX_CUSTOM
#undef ONNX_KNOWN
#undef ONNX_REFUSED
  };
  return table;
}

const OnnxOpInfo *onnxOp(std::string_view op) {
  static const std::unordered_map<std::string_view, const OnnxOpInfo *> index = [] {
    std::unordered_map<std::string_view, const OnnxOpInfo *> m;
    for (const OnnxOpInfo &i : onnxOpTable())
      m.emplace(i.op, &i);
    return m;
  }();
  auto it = index.find(op);
  return it == index.end() ? nullptr : it->second;
}

} // namespace ds
