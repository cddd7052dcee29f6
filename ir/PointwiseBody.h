// SPDX-License-Identifier: Apache-2.0
//
// The body of a `pointwise` op: a few elementwise ops over its operands, done element by element. Text:
//   mul(mul(a, sigmoid(a)), b)                        operands are a, b, c, ..; all of them are used
//   cast(gelu(a, tanh=true), to=bf16)                 attributes of a step behind its arguments, unless default
//   t1 = sigmoid(a); mul(t1, sub(a, mul(a, t1)))      what is used twice has a name, before its uses
// A step's value is rounded to the step's own type, as if the step were an op with a result in memory.
#pragma once

#include "ir/Ops.h"

#include <array>
#include <span>

namespace ds {

inline constexpr int kPointwiseOperands = 8, kPointwiseSteps = 16;

struct PointwiseStep {
  OpKind kind;
  Attrs attrs; // complete
  int numArgs = 0;
  /// Below the number of operands: that operand. Else, less that number, an earlier step.
  std::array<int, 3> args{};
};

struct PointwiseBody {
  int operands = 0;
  std::vector<PointwiseStep> steps; // the last one is the result; every other one is used
};

/// Whether an op of this kind may be a step: an elementwise one that every device's kernels compute in a body.
bool isPointwiseStep(OpKind k);
/// Whether a step may have values of this type: floats and bool.
bool isPointwiseType(DType d);

/// The body that the text says for so many operands. Errors name the column.
StatusOr<PointwiseBody> parsePointwise(std::string_view text, int operands);
/// Parses back to the same steps, in the order in which the text needs them.
std::string pointwiseText(const PointwiseBody &body);
/// The type of each step; f64 and narrower floats do not mix. in: of the operands.
StatusOr<std::vector<Type>> pointwiseTypes(const PointwiseBody &body, std::span<const Type> in);

} // namespace ds
