// SPDX-License-Identifier: Apache-2.0
//
// Shape rules: one function per name in the shape column of Ops.def (ir/Shapes*.cpp). They are part of core,
// so that the graph infers types with them and the schedule verifier checks launches with them.
// A rule checks dtypes, dimensions and attributes and appends one type per result, dtype and dimensions only.
// Dimensions of operands and results lie in [0, 2^48], and so does their product; a rule that adds or
// multiplies attributes (offsets, extents) must not overflow.
#pragma once

#include "ir/Ops.h"
#include "ir/Type.h"

#include <span>
#include <utility>
#include <vector>

namespace ds {

/// The largest number of elements a type may have, in text and as a result.
inline constexpr int64_t kMaxElems = int64_t(1) << 48;

struct ShapeArgs {
  OpKind kind;
  std::span<const Type> in;
  const Attrs &attrs; // complete
  const std::vector<std::pair<std::string, int64_t>> &mesh;
  std::vector<Type> &out;

  /// "matmul: inner sizes differ: lhs has 64, rhs has 128 [matmul_2]"; rule names the violated constraint.
  Status error(std::string text, const char *rule) const;
};

/// Checks the operand count [G3], then runs the op's rule. out is cleared first.
Status inferShape(const ShapeArgs &c);

// Several rows share a rule; declaring it again is harmless.
#define OP(kind, text, minIn, maxIn, outs, attrs, rule, grad, traits)                              \
  Status shape##rule(const ShapeArgs &c);
#include "ir/Ops.def"
#undef OP

} // namespace ds
