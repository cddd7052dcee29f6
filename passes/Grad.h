// SPDX-License-Identifier: Apache-2.0
//
// What a gradient rule sees. Ops.def names one rule gradX per op; rules are grouped by family in Grad*.cpp.
// A rule reads the gradients of the op's results and sets the gradient of each operand that wants one.
#pragma once

#include "ir/GraphBuilder.h"

#include <functional>
#include <optional>

namespace ds {

struct GradCtx {
  Builder &b;                            // inserts at the end of the backward phase
  Op &op;                                // the forward op
  Value *dy;                             // gradient of result 0; never null
  llvm::SmallVectorImpl<Value *> &grads; // per operand, null unless set
  const std::function<bool(const Value *)> &wantsGrad;

  Value *x(int i = 0) const { return op.operands[i]; }
  Value *y(int i = 0) const { return op.results[i]; }
  bool wants(int i) const { return wantsGrad(op.operands[i]); }
  /// The base of names for the gradient of operand i: "<name>.grad".
  std::string name(int i) const { return op.operands[i]->name + ".grad"; }
  /// Sets operand i's gradient after summing g down to the operand's shape.
  void set(int i, Value *g);

  Value *make(OpKind k, llvm::ArrayRef<Value *> operands, int i, Attrs attrs = {}) const {
    return b.op(k, operands, name(i), std::move(attrs));
  }
  /// A 0-d constant of the dtype of like.
  Value *scalar(double v, const Value *like) const;
  /// True if dy is the constant one: the seed of the loss.
  bool seedIsOne() const;
};

/// Sums g over the axes along which `dims` was broadcast, and reshapes to dims.
Value *unbroadcast(Builder &b, Value *g, llvm::ArrayRef<int64_t> dims, const std::string &name);
/// The value of a compile-time constant with one repeated element (fill, splat const), seen through
/// reshape, broadcast and cast.
std::optional<double> splatValue(const Value *v);

#define OP(kind, text, minIn, maxIn, outs, attrs, shape, rule, traits) Status grad##rule(GradCtx &);
#include "ir/Ops.def"
#undef OP

} // namespace ds
