// SPDX-License-Identifier: Apache-2.0
//
// What passes that look for patterns of ops share.
#pragma once

#include "ir/GraphBuilder.h"

#include <optional>

namespace ds {

/// The one op that reads v, if there is just one and v is no result of the program.
Op *onlyUser(const Program &p, const Value *v);
/// The value of a float fill.
std::optional<double> constantOf(const Value *v);
/// Whether v is a fill of this value, but for rounding.
bool isConstant(const Value *v, double value);
/// The operand of a two-operand op that is not v.
Value *otherOperand(const Op &op, const Value *v);
/// Erases op, if it is pure and nothing reads it, and then what only it needed.
void eraseDead(Module &m, Program &p, Op *op);

} // namespace ds
