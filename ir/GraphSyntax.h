// SPDX-License-Identifier: Apache-2.0
//
// What .dsir text writes differently from an op's attribute list; the printer and the parser share it.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// Attributes that the type of the first result already shows: the text leaves them out.
enum class Shown : uint8_t { Dims, Extent, DType }; // dimensions | the only dimension | dtype text
struct TypeAttr {
  const char *name;
  Shown from;
};
llvm::ArrayRef<TypeAttr> typeAttrs(OpKind k);
AttrValue shownValue(Shown from, const Type &t);

/// `view %b at 128`, `pack %a at 0, %b at 128`: attribute "at" stands behind the operands.
bool hasOperandOffsets(OpKind k);
/// `all_gather @b over dp`: attribute "over" stands behind the operands.
bool hasOver(OpKind k);
/// The attributes that remain for the braces.
std::vector<AttrSpec> braceAttrs(OpKind k);

/// The word a symbol declaration starts with, and the attributes in its and a segment's braces.
llvm::StringRef text(SymbolKind k);
const std::vector<AttrSpec> &symbolAttrs();  // export, module, frozen, running, resident
const std::vector<AttrSpec> &segmentAttrs(); // export

llvm::StringRef text(Phase p);
/// Where a program without a phase label starts: `update` in Update, any other in Forward.
Phase firstPhase(const Program &p);

} // namespace ds
