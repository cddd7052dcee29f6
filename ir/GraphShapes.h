// SPDX-License-Identifier: Apache-2.0
//
// Shape rules: one function per name in the shape column of Ops.def. A rule checks operand dtypes and
// dimensions and pushes one result type per result (dtype and dimensions only). inferTypes has checked the
// operand count and completed the attributes before, and sets placement and space after.
// Dimensions of operands and results lie in [0, 2^48], and so does their product; a rule that adds or
// multiplies attributes (offsets, extents) must not overflow.
#pragma once

#include "ir/Graph.h"

namespace ds {

struct ShapeCtx {
  OpKind kind;
  llvm::ArrayRef<Type> in;
  const Attrs &attrs;
  const Module &module;
  llvm::SmallVectorImpl<Type> &out;

  /// "matmul: inner sizes differ: lhs has 64, rhs has 128 [matmul_2]"; rule names the violated constraint.
  Status error(std::string text, const char *rule) const;
};

/// The largest number of elements a type may have, in text and as a result.
inline constexpr int64_t kMaxElems = int64_t(1) << 48;

/// Sets placement and space of c.out from the operands (docs/ir.md, rules G8 to G11), after the shape rule.
Status placeResults(const ShapeCtx &c, llvm::ArrayRef<Symbol *> bound);

// Several rows share a rule; declaring it again is harmless.
#define OP(kind, text, minIn, maxIn, outs, attrs, shape, grad, traits)                             \
  Status shape##shape(const ShapeCtx &c);
#include "ir/Ops.def"
#undef OP

} // namespace ds
