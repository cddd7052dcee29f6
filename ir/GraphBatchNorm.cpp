// SPDX-License-Identifier: Apache-2.0
#include "ir/GraphBatchNorm.h"

namespace ds {

StatusOr<Value *> normaliseBy(const MakeOp &make, Value *x, Value *scale, Value *bias, Value *mean,
                              Value *var, double eps) {
  auto textOf = [](const Value *v) { return std::string(text(v->type.dtype)); };
  TRY_ASSIGN(Value * least,
             make(OpKind::Fill, {},
                  {{"dims", std::vector<int64_t>{}}, {"dtype", textOf(var)}, {"value", eps}},
                  ".eps"));
  TRY_ASSIGN(Value * above, make(OpKind::Add, {var, least}, {}, ".var"));
  TRY_ASSIGN(Value * deviation, make(OpKind::Sqrt, {above}, {}, ".std"));
  // Statistics have the accumulate type, the rest may be narrower.
  if (scale->type.dtype != var->type.dtype) {
    TRY_ASSIGN(deviation, make(OpKind::Cast, {deviation}, {{"to", textOf(scale)}}, ".std"));
    TRY_ASSIGN(mean, make(OpKind::Cast, {mean}, {{"to", textOf(scale)}}, ".mean"));
  }
  TRY_ASSIGN(Value * factor, make(OpKind::Div, {scale, deviation}, {}, ".factor"));
  TRY_ASSIGN(Value * moved, make(OpKind::Mul, {mean, factor}, {}, ".moved"));
  TRY_ASSIGN(Value * shift, make(OpKind::Sub, {bias, moved}, {}, ".shift"));
  std::vector<int64_t> channels(x->type.dims.size() - 1, 1);
  channels[0] = x->type.dims[1];
  if (channels.size() > 1) {
    TRY_ASSIGN(factor, make(OpKind::Reshape, {factor}, {{"dims", channels}}, ".factor"));
    TRY_ASSIGN(shift, make(OpKind::Reshape, {shift}, {{"dims", channels}}, ".shift"));
  }
  TRY_ASSIGN(Value * scaled, make(OpKind::Mul, {x, factor}, {}, ".scaled"));
  return make(OpKind::Add, {scaled, shift}, {}, "");
}

} // namespace ds
