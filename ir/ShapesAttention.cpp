// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of attention.
#include "ir/ShapesCommon.h"

namespace ds {

namespace {

struct Sizes {
  int64_t batch, heads, groups, queries, keys, depth, width;
};

// Whether dims broadcast to `to` by numpy's rules.
bool broadcasts(const Dims &dims, const Dims &to) {
  if (dims.size() > to.size())
    return false;
  size_t lead = to.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1 && dims[i] != to[lead + i])
      return false;
  return true;
}

// Operands `first`, first + 1 and first + 2 are q, k and v, operand `mask`, if there is one, the mask.
StatusOr<Sizes> sizesOf(const ShapeArgs &c, int first, int mask) {
  TRY(wantKind(c, first, Kinds::Float, "attention_1"));
  const Type &q = c.in[first], &k = c.in[first + 1], &v = c.in[first + 2];
  for (int i = first; i < first + 3; ++i) {
    TRY(wantSameDType(c, i, first, "attention_1"));
    if (c.in[i].rank() != 4)
      return c.error(operandText(i) + " is " + typeText(c.in[i]) +
                         ", expected batch, heads, rows and elements",
                     "attention_1");
  }
  bool rowsFirst = c.attrs.flag("rows_first");
  int head = rowsFirst ? 2 : 1, row = rowsFirst ? 1 : 2;
  Sizes s{q.dims[0], q.dims[head], k.dims[head], q.dims[row], k.dims[row], q.dims[3], v.dims[3]};
  Dims keys = {s.batch, s.groups, s.keys, s.depth}, values = {s.batch, s.groups, s.keys, s.width};
  if (rowsFirst) {
    std::swap(keys[1], keys[2]);
    std::swap(values[1], values[2]);
  }
  TRY(wantType(c, first + 1, q.dtype, keys, "attention_2"));
  TRY(wantType(c, first + 2, q.dtype, values, "attention_2"));
  if (s.groups == 0 ? s.heads != 0 : s.heads % s.groups != 0)
    return c.error(std::to_string(s.heads) + " heads of q do not divide into " +
                       std::to_string(s.groups) + " of k and v",
                   "attention_3");
  if (static_cast<int>(c.in.size()) <= mask)
    return s;
  const Type &m = c.in[mask];
  if ((m.dtype != DType::Bool && m.dtype != q.dtype) ||
      !broadcasts(m.dims, {s.batch, s.heads, s.queries, s.keys}))
    return c.error("the mask is " + typeText(m) + ", expected bool or " +
                       std::string(text(q.dtype)) + " that broadcasts to " +
                       dimsText({s.batch, s.heads, s.queries, s.keys}),
                   "attention_4");
  return s;
}

} // namespace

// attention (q, k, v[, mask]) -> o, lse.
Status shapeAttention(const ShapeArgs &c) {
  TRY_ASSIGN(Sizes s, sizesOf(c, 0, 3));
  Dims o = c.in[0].dims;
  o[3] = s.width;
  TRY(addResult(c, c.in[0].dtype, o));
  return addResult(c, accumType(c.in[0].dtype), {s.batch, s.heads, s.queries});
}

// attention_grad (do, q, k, v, o, lse[, mask]) -> dq, dk, dv.
Status shapeAttentionGrad(const ShapeArgs &c) {
  TRY_ASSIGN(Sizes s, sizesOf(c, 1, 6));
  DType t = c.in[1].dtype;
  Dims o = c.in[1].dims;
  o[3] = s.width;
  TRY(wantType(c, 0, t, o, "attention_grad_1"));
  TRY(wantType(c, 4, t, o, "attention_grad_1"));
  TRY(wantType(c, 5, accumType(t), {s.batch, s.heads, s.queries}, "attention_grad_1"));
  for (int i = 1; i < 4; ++i)
    TRY(addResult(c, t, c.in[i].dims));
  return {};
}

} // namespace ds
