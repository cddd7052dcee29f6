// SPDX-License-Identifier: Apache-2.0
#include "ir/Shapes.h"

namespace ds {

Status ShapeArgs::error(std::string text, const char *rule) const {
  return Status::error(std::string(info(kind).text) + ": " + text + " [" + rule + "]");
}

static std::string count(int n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

static Status checkOperandCount(const ShapeArgs &c) {
  const OpInfo &op = info(c.kind);
  int n = static_cast<int>(c.in.size());
  if (n >= op.minIn && (op.maxIn < 0 || n <= op.maxIn))
    return {};
  std::string want = op.maxIn < 0 ? "at least " + count(op.minIn, "operand")
                     : op.minIn == op.maxIn
                         ? count(op.minIn, "operand")
                         : std::to_string(op.minIn) + " to " + count(op.maxIn, "operand");
  return c.error("takes " + want + ", has " + std::to_string(n), "G3");
}

Status inferShape(const ShapeArgs &c) {
  c.out.clear();
  TRY(checkOperandCount(c));
  switch (c.kind) {
#define OP(kind, text, minIn, maxIn, outs, attrs, rule, grad, traits)                              \
  case OpKind::kind:                                                                               \
    return shape##rule(c);
#include "ir/Ops.def"
#undef OP
  }
  return Status::internal("an op kind that is not in Ops.def");
}

} // namespace ds
