// SPDX-License-Identifier: Apache-2.0
#include "ir/ShapesCommon.h"

#include <algorithm>
#include <cmath>

namespace ds {

int64_t productOf(const Dims &dims) {
  // Zeros do not hide large factors: strides are products of the other dimensions.
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0)
      return -1;
    if (d == 0) {
      zero = true;
      continue;
    }
    if (n > kMaxElems / d)
      return -1;
    n *= d;
  }
  return zero ? 0 : n;
}

Status addResult(const ShapeArgs &c, DType dtype, Dims dims) {
  if (productOf(dims) < 0)
    return c.error("the result " + std::string(text(dtype)) + dimsText(dims) +
                       " is larger than 2^48 elements",
                   "size_1");
  if (dims.size() > static_cast<size_t>(kMaxRank))
    return c.error("the result " + std::string(text(dtype)) + dimsText(dims) + " has rank " +
                       std::to_string(dims.size()) + ", the largest rank is " +
                       std::to_string(kMaxRank),
                   "size_2");
  c.out.push_back(Type(dtype, std::move(dims)));
  return {};
}

StatusOr<int64_t> normalAxis(const ShapeArgs &c, int64_t axis, int64_t rank, const char *rule) {
  if (axis < -rank || axis >= rank)
    return c.error("axis " + std::to_string(axis) + " is not in [" + std::to_string(-rank) + ", " +
                       std::to_string(rank) + ") for rank " + std::to_string(rank),
                   rule);
  return axis < 0 ? axis + rank : axis;
}

Status checkAxes(const ShapeArgs &c, const std::vector<int64_t> &axes, int64_t rank,
                 const char *rule) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank)
      return c.error(
          "axis " + std::to_string(axes[i]) + " is not in [0, " + std::to_string(rank) + ")", rule);
    if (i && axes[i] <= axes[i - 1])
      return c.error("axes " + dimsText(axes) + " are not strictly increasing", rule);
  }
  return {};
}

StatusOr<Dims> broadcastDims(const ShapeArgs &c, const Dims &a, const Dims &b, const char *rule) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) { // i counts from the last axis
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return c.error("shapes do not broadcast: " + dimsText(a) + " and " + dimsText(b) +
                         " differ at axis " + std::to_string(-static_cast<int64_t>(i) - 1) + ", " +
                         std::to_string(x) + " and " + std::to_string(y),
                     rule);
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

std::string typeText(const Type &t) { return std::string(text(t.dtype)) + dimsText(t.dims); }
std::string operandText(int i) { return "operand " + std::to_string(i); }

Dims head(const Dims &dims, int64_t end) { return Dims(dims.begin(), dims.begin() + end); }
Dims tail(const Dims &dims, int64_t begin) { return Dims(dims.begin() + begin, dims.end()); }

Status wantKind(const ShapeArgs &c, int i, Kinds k, const char *rule) {
  DType d = c.in[i].dtype;
  bool ok = k == Kinds::Any || (k == Kinds::Number && d != DType::Bool) ||
            (k == Kinds::Float && isFloat(d)) ||
            (k == Kinds::Arith && (d == DType::F32 || d == DType::F64));
  if (ok)
    return {};
  const char *wanted = k == Kinds::Number  ? "a number type"
                       : k == Kinds::Float ? "a floating-point type"
                                           : "f32 or f64";
  return c.error(operandText(i) + " is " + typeText(c.in[i]) + ", expected " + wanted, rule);
}

Status wantSameDType(const ShapeArgs &c, int i, int j, const char *rule) {
  if (c.in[i].dtype == c.in[j].dtype)
    return {};
  return c.error("element types differ: " + operandText(j) + " is " + typeText(c.in[j]) + ", " +
                     operandText(i) + " is " + typeText(c.in[i]),
                 rule);
}

Status wantType(const ShapeArgs &c, int i, DType dtype, const Dims &dims, const char *rule) {
  if (c.in[i].dtype == dtype && c.in[i].dims == dims)
    return {};
  return c.error(operandText(i) + " is " + typeText(c.in[i]) + ", expected " +
                     std::string(text(dtype)) + dimsText(dims),
                 rule);
}

Status wantVector(const ShapeArgs &c, int i, DType dtype, const char *rule) {
  if (c.in[i].dtype == dtype && c.in[i].rank() == 1)
    return {};
  return c.error(operandText(i) + " is " + typeText(c.in[i]) + ", expected a vector of " +
                     std::string(text(dtype)),
                 rule);
}

Status wantDims(const ShapeArgs &c, const Dims &dims, const char *rule) {
  for (int64_t d : dims)
    if (d < 0)
      return c.error("dims " + dimsText(dims) + " contain " + std::to_string(d) +
                         ", expected 0 or more",
                     rule);
  if (productOf(dims) < 0)
    return c.error("dims " + dimsText(dims) + " are more than 2^48 elements", rule);
  return {};
}

Status wantFits(const ShapeArgs &c, double value, DType dtype, const char *rule) {
  if (isFloat(dtype))
    return {};
  bool isSigned =
      dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 || dtype == DType::I8;
  int bits = dtype == DType::Bool ? 1 : static_cast<int>(8 * byteSize(dtype));
  double low = isSigned ? -std::ldexp(1.0, bits - 1) : 0.0;
  double end = std::ldexp(1.0, isSigned ? bits - 1 : bits); // exclusive
  if (value >= low && value < end && value == std::floor(value))
    return {};
  return c.error("value " + doubleText(value) + " is not a value of " + std::string(text(dtype)),
                 rule);
}

StatusOr<DType> dtypeAttr(const ShapeArgs &c, std::string_view name, const char *rule) {
  std::string word = c.attrs.s(name);
  if (auto d = dtypeFromText(word))
    return *d;
  std::vector<std::string> known;
#define DTYPE(kind, text, bytes, ctype, onnx, safe) known.emplace_back(text);
#include "ir/DTypes.def"
#undef DTYPE
  std::string hint = nearest(word, known);
  return c.error(std::string(name) + "=\"" + word + "\" is not an element type" +
                     (hint.empty() ? "" : "; did you mean " + hint),
                 rule);
}

} // namespace ds
