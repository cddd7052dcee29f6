// SPDX-License-Identifier: Apache-2.0
#include "ir/GraphSyntax.h"

#include "llvm/ADT/STLExtras.h"

namespace ds {

llvm::ArrayRef<TypeAttr> typeAttrs(OpKind k) {
  static const TypeAttr dims[] = {{"dims", Shown::Dims}};
  static const TypeAttr dimsAndDType[] = {{"dims", Shown::Dims}, {"dtype", Shown::DType}};
  static const TypeAttr elems[] = {{"elems", Shown::Extent}};
  static const TypeAttr to[] = {{"to", Shown::DType}};
  switch (k) {
  case OpKind::Reshape:
  case OpKind::Broadcast:
  case OpKind::GatherGrad:
  case OpKind::View:
    return dims;
  case OpKind::Iota:
  case OpKind::Fill:
    return dimsAndDType;
  case OpKind::Pack:
    return elems;
  case OpKind::Cast:
    return to;
  default:
    return {};
  }
}

AttrValue shownValue(Shown from, const Type &t) {
  switch (from) {
  case Shown::Dims:
    return t.dims;
  case Shown::Extent: // of a type that is not flat, the extent it should have
    return t.elems();
  case Shown::DType:
    return std::string(text(t.dtype));
  }
  return false;
}

bool hasOperandOffsets(OpKind k) { return k == OpKind::View || k == OpKind::Pack; }

bool hasOver(OpKind k) {
  return llvm::any_of(info(k).attrs, [](const AttrSpec &s) { return s.name == "over"; });
}

std::vector<AttrSpec> braceAttrs(OpKind k) {
  std::vector<AttrSpec> out;
  for (const AttrSpec &s : info(k).attrs) {
    bool elsewhere =
        (s.name == "at" && hasOperandOffsets(k)) || s.name == "over" ||
        llvm::any_of(typeAttrs(k), [&](const TypeAttr &t) { return s.name == t.name; });
    if (!elsewhere)
      out.push_back(s);
  }
  return out;
}

llvm::StringRef text(SymbolKind k) {
  constexpr llvm::StringLiteral names[] = {"param", "bucket", "state", "accum", "scalar", "const"};
  return names[static_cast<int>(k)];
}

const std::vector<AttrSpec> &symbolAttrs() {
  static const auto specs =
      parseAttrSpecs("export:s=\"\" module:s=\"\" frozen:b running:b resident:b");
  return specs;
}

const std::vector<AttrSpec> &segmentAttrs() {
  static const auto specs = parseAttrSpecs("export:s=\"\"");
  return specs;
}

llvm::StringRef text(Phase p) {
  constexpr llvm::StringLiteral names[] = {"forward", "backward", "update"};
  return names[static_cast<int>(p)];
}

Phase firstPhase(const Program &p) { return p.name == "update" ? Phase::Update : Phase::Forward; }

} // namespace ds
