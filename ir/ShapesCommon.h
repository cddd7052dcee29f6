// SPDX-License-Identifier: Apache-2.0
//
// What the shape rules (ir/Shapes*.cpp) share. Rules check dtypes, ranks, axes and extents and append
// result types; placement and space are not theirs. Attributes are complete. Every result goes through
// addResult, so that no later code multiplies dimensions that overflow.
#pragma once

#include "ir/Shapes.h"

namespace ds {

using Dims = std::vector<int64_t>;

/// Appends a result; refuses more than kMaxElems elements and ranks above kMaxRank [size_1], [size_2].
Status addResult(const ShapeArgs &c, DType dtype, Dims dims);

/// The axis counted from the front; -rank..rank-1 is allowed. Error text names the range.
StatusOr<int64_t> normalAxis(const ShapeArgs &c, int64_t axis, int64_t rank, const char *rule);
/// axes must be strictly increasing within 0..rank-1.
Status checkAxes(const ShapeArgs &c, const std::vector<int64_t> &axes, int64_t rank,
                 const char *rule);
/// numpy broadcasting of two shapes.
StatusOr<Dims> broadcastDims(const ShapeArgs &c, const Dims &a, const Dims &b, const char *rule);

/// Product of dims, or -1 if it is above kMaxElems or a dimension is negative.
int64_t productOf(const Dims &dims);

enum class Kinds : uint8_t { Any, Number, Float, Arith }; // Arith: f32 or f64
/// Operand i has a dtype of that kind.
Status wantKind(const ShapeArgs &c, int i, Kinds k, const char *rule);
/// Operand i has operand j's dtype.
Status wantSameDType(const ShapeArgs &c, int i, int j, const char *rule);
/// Operand i has exactly this dtype and these dims.
Status wantType(const ShapeArgs &c, int i, DType dtype, const Dims &dims, const char *rule);
/// Operand i is a vector (rank 1) of that dtype.
Status wantVector(const ShapeArgs &c, int i, DType dtype, const char *rule);
/// Dimensions given as an attribute are not negative.
Status wantDims(const ShapeArgs &c, const Dims &dims, const char *rule);
/// A number attribute can be converted to dtype exactly enough: integers must be whole and in range.
Status wantFits(const ShapeArgs &c, double value, DType dtype, const char *rule);
/// Attribute `name` as an element type.
StatusOr<DType> dtypeAttr(const ShapeArgs &c, std::string_view name, const char *rule);

std::string typeText(const Type &t); // dtype and dims only: "f32[8,64]"
std::string operandText(int i);      // "operand 1"
/// [dims[0], ..., dims[end-1]] and [dims[begin], ...].
Dims head(const Dims &dims, int64_t end);
Dims tail(const Dims &dims, int64_t begin);

} // namespace ds
