// SPDX-License-Identifier: Apache-2.0
//
// The op table as an enum and a lookup: nothing but expansions of Ops.def.
#pragma once

#include "ir/Attr.h"
#include "ir/Type.h"

#include <optional>
#include <string_view>
#include <vector>

namespace ds {

enum class OpKind : uint8_t {
#define OP(kind, text, minIn, maxIn, outs, attrs, shape, grad, traits) kind,
#include "ir/Ops.def"
#undef OP
};

enum class Trait : uint8_t {
  Pure,
  OverFirst,
  OverEither,
  Elementwise,
  View,
  Collective,
  Transfer,
  Optimizer,
  Effect
};

struct OpInfo {
  OpKind kind;
  std::string_view text;
  int minIn, maxIn; // maxIn -1: any number
  int outs;
  std::vector<AttrSpec> attrs;
  Trait trait;

  bool isPure() const { return trait <= Trait::View; }
  bool isView() const { return trait == Trait::View; }
  bool isCollective() const { return trait == Trait::Collective; }
  bool isTransfer() const { return trait == Trait::Transfer; }
  /// Becomes a launch of a kernel.
  bool isLaunch() const { return !isView() && !isCollective() && !isTransfer(); }
};

const OpInfo &info(OpKind k);
std::optional<OpKind> opFromText(std::string_view text);
const std::vector<std::string> &opTexts(); // all mnemonics, for "did you mean"

/// The operand whose storage result r updates in place (optimizers, accumulate, advance), or -1.
/// A tied result bound to symbol @s must have @s itself, or a view of it, as that operand.
int tiedOperand(OpKind k, int result, int numOperands);
/// Whether result 0 may be written over this operand if both have one layout: every kernel reads what it needs of the
/// operand before it writes there.
bool mayOverwrite(OpKind k, int operand);
/// How many of an optimizer's operands are vectors of one bucket: the gradient, then what is updated in place, parameters
/// first. 0 for other ops.
int bucketOperands(OpKind k);
/// The result of an optimizer that is the updated parameters.
int updatedResult(OpKind k);

/// Where a transfer starts and ends.
struct Route {
  Space from, to;
};
Route routeOf(OpKind transfer);

} // namespace ds
