// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of ops that move elements or make them. List attributes have one entry per axis.
#include "ir/ShapesCommon.h"

#include <limits>

namespace ds {

// reshape: same number of elements in row-major order.
Status shapeReshape(const ShapeArgs &c) {
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "reshape_1"));
  int64_t from = c.in[0].elems(), to = productOf(dims);
  if (from != to)
    return c.error("element counts differ: " + dimsText(c.in[0].dims) + " has " +
                       std::to_string(from) + ", " + dimsText(dims) + " has " + std::to_string(to),
                   "reshape_2");
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// transpose: result axis i is operand axis perm[i].
Status shapeTranspose(const ShapeArgs &c) {
  std::vector<int64_t> perm = c.attrs.list("perm");
  int64_t rank = c.in[0].rank();
  std::vector<bool> seen(rank);
  Dims dims;
  bool ok = static_cast<int64_t>(perm.size()) == rank;
  for (size_t i = 0; ok && i < perm.size(); ++i) {
    ok = perm[i] >= 0 && perm[i] < rank && !seen[perm[i]];
    if (ok) {
      seen[perm[i]] = true;
      dims.push_back(c.in[0].dims[perm[i]]);
    }
  }
  if (!ok)
    return c.error("perm " + dimsText(perm) + " is not a permutation of the axes of rank " +
                       std::to_string(rank),
                   "transpose_1");
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// broadcast: the operand's axes, aligned at the last, are 1 or equal to dims.
Status shapeBroadcastTo(const ShapeArgs &c) {
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "broadcast_to_1"));
  TRY_ASSIGN(Dims both, broadcastDims(c, c.in[0].dims, dims, "broadcast_to_2"));
  if (both != dims)
    return c.error(dimsText(c.in[0].dims) + " does not broadcast to " + dimsText(dims) +
                       ": the result would be " + dimsText(both),
                   "broadcast_to_3");
  return addResult(c, c.in[0].dtype, std::move(dims));
}

static Status wantLength(const ShapeArgs &c, const char *name, const std::vector<int64_t> &list,
                         const char *rule) {
  if (static_cast<int64_t>(list.size()) == c.in[0].rank())
    return {};
  return c.error(std::string(name) + " has " + std::to_string(list.size()) +
                     " entries, operand 0 has rank " + std::to_string(c.in[0].rank()),
                 rule);
}

// slice: elements starts[i], starts[i] + strides[i], ... below limits[i] of every axis i.
Status shapeSlice(const ShapeArgs &c) {
  std::vector<int64_t> starts = c.attrs.list("starts"), limits = c.attrs.list("limits"),
                       strides = c.attrs.list("strides");
  TRY(wantLength(c, "starts", starts, "slice_1"));
  TRY(wantLength(c, "limits", limits, "slice_1"));
  TRY(wantLength(c, "strides", strides, "slice_1"));
  Dims dims;
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t extent = c.in[0].dims[i];
    if (starts[i] < 0 || starts[i] > limits[i] || limits[i] > extent)
      return c.error("[" + std::to_string(starts[i]) + ", " + std::to_string(limits[i]) +
                         ") is not a range of axis " + std::to_string(i) + " with extent " +
                         std::to_string(extent),
                     "slice_2");
    if (strides[i] < 1)
      return c.error("stride " + std::to_string(strides[i]) + " of axis " + std::to_string(i) +
                         " is less than 1",
                     "slice_3");
    int64_t span = limits[i] - starts[i];
    dims.push_back(span / strides[i] + (span % strides[i] != 0));
  }
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// pad: interior[i] new elements between neighbours, low[i] in front and high[i] behind; negative ones crop.
Status shapePad(const ShapeArgs &c) {
  std::vector<int64_t> low = c.attrs.list("low"), high = c.attrs.list("high"),
                       interior = c.attrs.list("interior");
  TRY(wantLength(c, "low", low, "pad_1"));
  TRY(wantLength(c, "high", high, "pad_1"));
  TRY(wantLength(c, "interior", interior, "pad_1"));
  TRY(wantFits(c, c.attrs.f("value"), c.in[0].dtype, "pad_2"));
  Dims dims;
  for (size_t i = 0; i < low.size(); ++i) {
    if (interior[i] < 0)
      return c.error("interior " + std::to_string(interior[i]) + " of axis " + std::to_string(i) +
                         " is negative",
                     "pad_3");
    __int128 d = c.in[0].dims[i];
    d += (d > 1 ? (d - 1) * interior[i] : 0) + low[i] + high[i];
    if (d < 0 || d > std::numeric_limits<int64_t>::max())
      return c.error("axis " + std::to_string(i) + " with extent " +
                         std::to_string(c.in[0].dims[i]) + ", low " + std::to_string(low[i]) +
                         ", high " + std::to_string(high[i]) + ", interior " +
                         std::to_string(interior[i]) +
                         (d < 0 ? " would be negative" : " would overflow"),
                     "pad_4");
    dims.push_back(static_cast<int64_t>(d));
  }
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// reverse: the order of elements along the axes is turned round.
Status shapeReverse(const ShapeArgs &c) {
  TRY(checkAxes(c, c.attrs.list("axes"), c.in[0].rank(), "reverse_1"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// concat: equal dtypes and extents except along axis.
Status shapeConcat(const ShapeArgs &c) {
  TRY_ASSIGN(int64_t axis, normalAxis(c, c.attrs.i("axis"), c.in[0].rank(), "concat_1"));
  Dims dims = c.in[0].dims;
  for (size_t i = 1; i < c.in.size(); ++i) {
    int at = static_cast<int>(i);
    TRY(wantSameDType(c, at, 0, "concat_2"));
    Dims other = c.in[i].dims;
    bool same = other.size() == dims.size();
    for (size_t k = 0; same && k < dims.size(); ++k)
      same = static_cast<int64_t>(k) == axis || other[k] == dims[k];
    if (!same)
      return c.error("shapes differ outside axis " + std::to_string(axis) + ": operand 0 is " +
                         typeText(c.in[0]) + ", " + operandText(at) + " is " + typeText(c.in[i]),
                     "concat_3");
    if (__builtin_add_overflow(dims[axis], other[axis], &dims[axis]))
      return c.error("the extent of axis " + std::to_string(axis) + " overflows", "concat_4");
  }
  return addResult(c, c.in[0].dtype, std::move(dims));
}

static Status wantIndices(const ShapeArgs &c, int i, const char *rule) {
  if (c.in[i].dtype == DType::I64 || c.in[i].dtype == DType::I32)
    return {};
  return c.error(operandText(i) + " (indices) is " + typeText(c.in[i]) + ", expected i64 or i32",
                 rule);
}

static Dims gathered(const Dims &x, const Dims &indices, int64_t axis) {
  Dims dims = head(x, axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return dims;
}

// gather (x, indices): x.dims[:axis] + indices.dims + x.dims[axis+1:].
Status shapeGather(const ShapeArgs &c) {
  TRY_ASSIGN(int64_t axis, normalAxis(c, c.attrs.i("axis"), c.in[0].rank(), "gather_1"));
  TRY(wantIndices(c, 1, "gather_2"));
  return addResult(c, c.in[0].dtype, gathered(c.in[0].dims, c.in[1].dims, axis));
}

// gather_grad (dy, indices): dims are those of gather's x; dy is added at its indices.
Status shapeGatherGrad(const ShapeArgs &c) {
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "gather_grad_1"));
  TRY_ASSIGN(int64_t axis,
             normalAxis(c, c.attrs.i("axis"), static_cast<int64_t>(dims.size()), "gather_grad_1"));
  TRY(wantKind(c, 0, Kinds::Float, "gather_grad_2"));
  TRY(wantIndices(c, 1, "gather_grad_2"));
  TRY(wantType(c, 0, c.in[0].dtype, gathered(dims, c.in[1].dims, axis), "gather_grad_3"));
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// trilu: the upper or lower triangle of the last two axes, from diagonal k.
Status shapeTrilu(const ShapeArgs &c) {
  if (c.in[0].rank() < 2)
    return c.error("operand 0 is " + typeText(c.in[0]) + ", expected rank 2 or more", "trilu_1");
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// iota: start + step * index along axis.
Status shapeIota(const ShapeArgs &c) {
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "iota_1"));
  TRY_ASSIGN(int64_t axis,
             normalAxis(c, c.attrs.i("axis"), static_cast<int64_t>(dims.size()), "iota_1"));
  TRY_ASSIGN(DType dtype, dtypeAttr(c, "dtype", "iota_2"));
  if (dtype == DType::Bool)
    return c.error("dtype is bool, expected a number type", "iota_2");
  if (dims[axis] > 0) {
    __int128 last =
        static_cast<__int128>(c.attrs.i("step")) * (dims[axis] - 1) + c.attrs.i("start");
    if (last < std::numeric_limits<int64_t>::min() || last > std::numeric_limits<int64_t>::max())
      return c.error("the last value overflows i64", "iota_3");
    TRY(wantFits(c, static_cast<double>(c.attrs.i("start")), dtype, "iota_4"));
    TRY(wantFits(c, static_cast<double>(static_cast<int64_t>(last)), dtype, "iota_4"));
  }
  return addResult(c, dtype, std::move(dims));
}

// fill: every element is value.
Status shapeFill(const ShapeArgs &c) {
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "fill_1"));
  TRY_ASSIGN(DType dtype, dtypeAttr(c, "dtype", "fill_2"));
  TRY(wantFits(c, c.attrs.f("value"), dtype, "fill_3"));
  return addResult(c, dtype, std::move(dims));
}

} // namespace ds
