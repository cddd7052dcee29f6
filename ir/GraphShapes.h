// SPDX-License-Identifier: Apache-2.0
//
// Placement of results: what inferTypes does after the shape rule (ir/Shapes.h) has set dtypes and dims.
#pragma once

#include "ir/Graph.h"
#include "ir/Shapes.h"

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

/// Sets placement and space of c.out from the operands (docs/ir.md, rules G8 to G11), after the shape rule.
Status placeResults(const ShapeCtx &c, llvm::ArrayRef<Symbol *> bound);

} // namespace ds
