// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of elementwise ops. Operands broadcast as in numpy where the rule says so; they never
// convert: dtypes must agree, `cast` is an op of its own.
#include "ir/ShapesCommon.h"

namespace ds {

// neg abs sign relu: a number type, unchanged.
Status shapeSame(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Number, "same_1"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// exp log tanh ...: a floating-point type, unchanged.
Status shapeSameFloat(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "same_float_1"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// relu_grad gelu_grad tanh_grad: all operands have one type, which is the result's.
Status shapeSameAll(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "same_all_1"));
  for (size_t i = 1; i < c.in.size(); ++i)
    TRY(wantType(c, static_cast<int>(i), c.in[0].dtype, c.in[0].dims, "same_all_2"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// copy: anything.
Status shapeCopy(const ShapeArgs &c) { return addResult(c, c.in[0].dtype, c.in[0].dims); }

// add sub mul div max min mod: one number type, broadcast.
Status shapeBroadcast(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Number, "broadcast_1"));
  TRY(wantSameDType(c, 1, 0, "broadcast_2"));
  TRY_ASSIGN(Dims dims, broadcastDims(c, c.in[0].dims, c.in[1].dims, "broadcast_3"));
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// pow: the base gives the result's dtype; the exponent is any number type.
Status shapePowBroadcast(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Number, "pow_1"));
  TRY(wantKind(c, 1, Kinds::Number, "pow_1"));
  TRY_ASSIGN(Dims dims, broadcastDims(c, c.in[0].dims, c.in[1].dims, "pow_2"));
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// eq: any one dtype; lt le gt ge: one number type. The result is bool.
Status shapeCompare(const ShapeArgs &c) {
  TRY(wantKind(c, 0, c.kind == OpKind::Eq ? Kinds::Any : Kinds::Number, "compare_1"));
  TRY(wantSameDType(c, 1, 0, "compare_2"));
  TRY_ASSIGN(Dims dims, broadcastDims(c, c.in[0].dims, c.in[1].dims, "compare_3"));
  return addResult(c, DType::Bool, std::move(dims));
}

// and or xor not: bool.
Status shapeLogical(const ShapeArgs &c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.in[i].dtype != DType::Bool)
      return c.error(operandText(static_cast<int>(i)) + " is " + typeText(c.in[i]) +
                         ", expected bool",
                     "logical_1");
  Dims dims = c.in[0].dims;
  if (c.in.size() == 2) {
    TRY_ASSIGN(dims, broadcastDims(c, c.in[0].dims, c.in[1].dims, "logical_2"));
  }
  return addResult(c, DType::Bool, std::move(dims));
}

// is_nan is_inf: floating point to bool.
Status shapeToBool(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "to_bool_1"));
  return addResult(c, DType::Bool, c.in[0].dims);
}

// where (cond, a, b): bool, and two of one dtype; all broadcast.
Status shapeWhere(const ShapeArgs &c) {
  if (c.in[0].dtype != DType::Bool)
    return c.error("the condition is " + typeText(c.in[0]) + ", expected bool", "where_1");
  TRY(wantSameDType(c, 2, 1, "where_2"));
  TRY_ASSIGN(Dims dims, broadcastDims(c, c.in[1].dims, c.in[2].dims, "where_3"));
  TRY_ASSIGN(dims, broadcastDims(c, c.in[0].dims, dims, "where_3"));
  return addResult(c, c.in[1].dtype, std::move(dims));
}

// dropout (x, rng): a floating-point type, unchanged; rng is the seed and a sample's number.
Status shapeDropout(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "dropout_1"));
  TRY(wantType(c, 1, DType::U64, {2}, "dropout_1"));
  double ratio = c.attrs.f("ratio");
  if (!(ratio >= 0 && ratio < 1))
    return c.error("ratio " + doubleText(ratio) + " is not in [0, 1)", "dropout_2");
  int64_t rows = c.attrs.i("rows"), elems = productOf(c.in[0].dims);
  if (rows < 0 || (rows > 0 && elems % rows != 0))
    return c.error("rows=" + std::to_string(rows) + " does not divide the " +
                       std::to_string(elems) + " elements of " + typeText(c.in[0]),
                   "dropout_3");
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// cast: any dtype to any dtype.
Status shapeCast(const ShapeArgs &c) {
  TRY_ASSIGN(DType to, dtypeAttr(c, "to", "cast_1"));
  return addResult(c, to, c.in[0].dims);
}

} // namespace ds
