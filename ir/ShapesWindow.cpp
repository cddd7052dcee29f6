// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of convolution and pooling. Both move a window over the axes behind N and C; the extent of axis i is
// floor((in + low + high - dilation * (window - 1) - 1) / stride) + 1. Gradients take the forward op's attributes
// and check their operands against its result.
#include "ir/ShapesCommon.h"

#include <algorithm>

namespace ds {

static StatusOr<Dims> perAxis(const ShapeArgs &c, const char *name, size_t axes, int64_t least) {
  Dims list = c.attrs.list(name);
  if (list.empty())
    list.assign(axes, least); // strides and dilations 1, pads 0
  if (list.size() != axes)
    return c.error(std::string(name) + "=" + dimsText(list) + " has " +
                       std::to_string(list.size()) + " entries for " + std::to_string(axes) +
                       " axes behind the channels",
                   "window_1");
  for (int64_t v : list)
    if (v < least || v > kMaxElems)
      return c.error(std::string(name) + "=" + dimsText(list) + ": expected " +
                         std::to_string(least) + " or more, at most 2^48",
                     "window_2");
  return list;
}

// The extents of the result behind N and C.
static StatusOr<Dims> windowed(const ShapeArgs &c, const Dims &in, const Dims &window) {
  size_t n = in.size();
  TRY_ASSIGN(Dims strides, perAxis(c, "strides", n, 1));
  TRY_ASSIGN(Dims low, perAxis(c, "low", n, 0));
  TRY_ASSIGN(Dims high, perAxis(c, "high", n, 0));
  TRY_ASSIGN(Dims dilations, perAxis(c, "dilations", n, 1));
  Dims out(n);
  for (size_t i = 0; i < n; ++i) {
    int64_t padded = in[i] + low[i] + high[i], reach;
    if (__builtin_mul_overflow(dilations[i], window[i] - 1, &reach) || window[i] < 1 ||
        reach >= padded)
      return c.error("a window of " + std::to_string(window[i]) + " with dilation " +
                         std::to_string(dilations[i]) + " does not fit into axis " +
                         std::to_string(i + 2) + ", which has " + std::to_string(padded) +
                         " elements with padding",
                     "window_3");
    out[i] = (padded - reach - 1) / strides[i] + 1;
  }
  return out;
}

static Status wantImage(const ShapeArgs &c, const Dims &dims, const char *what, const char *rule) {
  if (dims.size() >= 3 && dims.size() <= 5)
    return {};
  return c.error(std::string(what) + " has dims " + dimsText(dims) +
                     ", expected rank 3 to 5: " + "batch, channels and 1 to 3 axes",
                 rule);
}

// What conv gives for x and w of these dims.
static StatusOr<Dims> convolved(const ShapeArgs &c, const Dims &x, const Dims &w) {
  TRY(wantImage(c, x, "x", "conv_2"));
  if (w.size() != x.size())
    return c.error("x and w have ranks " + std::to_string(x.size()) + " and " +
                       std::to_string(w.size()) + ", expected equal ranks",
                   "conv_2");
  int64_t groups = c.attrs.i("groups", 1);
  if (groups < 1 || w[0] % groups || x[1] % groups || x[1] / groups != w[1])
    return c.error("x has " + std::to_string(x[1]) + " channels, w has dims " + dimsText(w) +
                       ": expected " + std::to_string(groups) + " groups to divide " +
                       std::to_string(w[0]) + " and to have " + std::to_string(w[1]) +
                       " channels each",
                   "conv_4");
  TRY_ASSIGN(Dims out, windowed(c, tail(x, 2), tail(w, 2)));
  out.insert(out.begin(), {x[0], w[0]});
  return out;
}

static Status wantFloats(const ShapeArgs &c, const char *kind, const char *same) {
  TRY(wantKind(c, 0, Kinds::Float, kind));
  for (size_t i = 1; i < c.in.size(); ++i)
    TRY(wantSameDType(c, static_cast<int>(i), 0, same));
  return {};
}

Status shapeConv(const ShapeArgs &c) {
  TRY(wantFloats(c, "conv_1", "conv_3"));
  TRY_ASSIGN(Dims out, convolved(c, c.in[0].dims, c.in[1].dims));
  return addResult(c, c.in[0].dtype, std::move(out));
}

// Operand 0 is the gradient of conv's result for x and w.
static Status wantGradOf(const ShapeArgs &c, const Dims &x, const Dims &w) {
  TRY(wantFloats(c, "conv_1", "conv_3"));
  TRY(wantDims(c, c.attrs.list("dims"), "conv_5"));
  TRY_ASSIGN(Dims y, convolved(c, x, w));
  return wantType(c, 0, c.in[0].dtype, y, "conv_6");
}

Status shapeConvGradInput(const ShapeArgs &c) {
  TRY(wantGradOf(c, c.attrs.list("dims"), c.in[1].dims));
  return addResult(c, c.in[0].dtype, c.attrs.list("dims"));
}

Status shapeConvGradWeight(const ShapeArgs &c) {
  TRY(wantGradOf(c, c.in[1].dims, c.attrs.list("dims")));
  return addResult(c, c.in[0].dtype, c.attrs.list("dims"));
}

// What a pool gives for x of these dims.
static StatusOr<Dims> pooled(const ShapeArgs &c, const Dims &x) {
  TRY(wantImage(c, x, "x", "pool_2"));
  TRY_ASSIGN(Dims window, perAxis(c, "window", x.size() - 2, 1));
  TRY_ASSIGN(Dims out, windowed(c, tail(x, 2), window));
  out.insert(out.begin(), {x[0], x[1]});
  return out;
}

Status shapePool(const ShapeArgs &c) {
  TRY(wantFloats(c, "pool_1", "pool_1"));
  TRY_ASSIGN(Dims out, pooled(c, c.in[0].dims));
  return addResult(c, c.in[0].dtype, std::move(out));
}

Status shapeMaxPoolGrad(const ShapeArgs &c) {
  TRY(wantFloats(c, "pool_1", "pool_1"));
  TRY_ASSIGN(Dims y, pooled(c, c.in[1].dims));
  TRY(wantType(c, 0, c.in[1].dtype, y, "pool_3"));
  return addResult(c, c.in[1].dtype, c.in[1].dims);
}

Status shapeAvgPoolGrad(const ShapeArgs &c) {
  TRY(wantFloats(c, "pool_1", "pool_1"));
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "pool_4"));
  TRY_ASSIGN(Dims y, pooled(c, dims));
  TRY(wantType(c, 0, c.in[0].dtype, y, "pool_3"));
  return addResult(c, c.in[0].dtype, std::move(dims));
}

} // namespace ds
