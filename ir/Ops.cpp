// SPDX-License-Identifier: Apache-2.0
#include "ir/Ops.h"

#include <unordered_map>

namespace ds {

static const std::vector<OpInfo> &table() {
  static const std::vector<OpInfo> rows = {
#define OP(kind, text, minIn, maxIn, outs, attrs, shape, grad, traits)                             \
  {OpKind::kind, text, minIn, maxIn, outs, parseAttrSpecs(attrs), Trait::traits},
#include "ir/Ops.def"
#undef OP
  };
  return rows;
}

const OpInfo &info(OpKind k) { return table()[static_cast<size_t>(k)]; }

std::optional<OpKind> opFromText(std::string_view text) {
  static const auto map = [] {
    std::unordered_map<std::string_view, OpKind> m;
    for (const OpInfo &i : table())
      m.emplace(i.text, i.kind);
    return m;
  }();
  auto it = map.find(text);
  return it == map.end() ? std::nullopt : std::optional(it->second);
}

const std::vector<std::string> &opTexts() {
  static const auto texts = [] {
    std::vector<std::string> v;
    for (const OpInfo &i : table())
      v.emplace_back(i.text);
    return v;
  }();
  return texts;
}

int tiedOperand(OpKind k, int result, int numOperands) {
  switch (k) {
  case OpKind::Adam: // (g, p, m, v, ...) -> p, m, v
    return result + 1;
  case OpKind::AdamRound: // (g, p, m, v, ...) -> rounded, p, m, v
    return result > 0 ? result : -1;
  case OpKind::Sgd: // (g, p, m, ...) -> p, m
    return result + 1;
  case OpKind::LossScale: // (scale, since, left, skip) -> scale, since, left
    return result;
  case OpKind::Accumulate:
    return numOperands == 2 ? 0 : -1;
  case OpKind::Advance:
  case OpKind::LrSchedule:
    return 0;
  default:
    return -1;
  }
}

bool mayOverwrite(OpKind k, int operand) {
  Trait t = info(k).trait;
  return t == Trait::Elementwise || (t == Trait::OverFirst && operand == 0) ||
         (t == Trait::OverEither && operand < 2);
}

int bucketOperands(OpKind k) {
  const OpInfo &op = info(k);
  return op.trait == Trait::Optimizer ? 1 + op.outs - updatedResult(k) : 0;
}

int updatedResult(OpKind k) { return k == OpKind::AdamRound ? 1 : 0; }

Route routeOf(OpKind transfer) {
  switch (transfer) {
  case OpKind::Offload:
    return {Space::Device, Space::Host};
  case OpKind::Read:
    return {Space::Nvme, Space::Host};
  case OpKind::Write:
    return {Space::Host, Space::Nvme};
  default: // Fetch
    return {Space::Host, Space::Device};
  }
}

} // namespace ds
