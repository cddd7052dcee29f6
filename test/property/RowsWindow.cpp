// SPDX-License-Identifier: Apache-2.0
//
// Rows of convolution and pooling: a sample's elements as channels of 1 or 2 axes.
#include "test/property/Rows.h"

#include <cmath>

namespace ds::property {

namespace {

Value *image(GraphMaker &g, Value *x) {
  int64_t n = x->type.elems() / x->type.dims[0];
  Dims dims = {x->type.dims[0], n % 2 == 0 && g.choose.chance(50) ? 2 : 1};
  n /= dims[1];
  for (int64_t rows : {3, 2})
    if (n % rows == 0 && g.choose.chance(70)) {
      dims.push_back(rows);
      n /= rows;
      break;
    }
  dims.push_back(n);
  return g.reshape(x, dims);
}

/// A window that fits. Padding is less than the window, so that none is padding alone.
struct Windows {
  Dims window, strides, low, high, dilations;

  Windows(GraphMaker &g, const Dims &dims) {
    for (size_t i = 2; i < dims.size(); ++i) {
      int64_t k = 1 + g.choose.below(3), d = g.choose.chance(25) ? 2 : 1;
      low.push_back(k > 1 && d == 1 ? g.choose.below(2) : 0);
      high.push_back(k > 1 && d == 1 ? g.choose.below(2) : 0);
      while ((k - 1) * d >= dims[i] + low.back() + high.back())
        --k;
      if (k == 1)
        low.back() = high.back() = 0;
      window.push_back(k);
      dilations.push_back(d);
      strides.push_back(1 + g.choose.below(2));
    }
  }
  Attrs attrs() const {
    return {{"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}};
  }
};

Value *weights(GraphMaker &g, int64_t out, int64_t in, const Dims &window) {
  Dims dims = {out, in};
  dims.insert(dims.end(), window.begin(), window.end());
  int64_t n = in;
  for (int64_t k : window)
    n *= k;
  return g.param(dims, 1 / std::sqrt(static_cast<double>(n)));
}

Value *conv(GraphMaker &g, Value *x, Value *) {
  x = image(g, x);
  Windows v(g, x->type.dims);
  int64_t in = x->type.dims[1], groups = in == 2 && g.choose.chance(40) ? 2 : 1;
  int64_t out = groups * (1 + g.choose.below(3));
  Attrs attrs = v.attrs();
  attrs.set("groups", groups);
  Value *y = g.op(OpKind::Conv, {x, weights(g, out, in / groups, v.window)}, attrs);
  Dims channels(x->type.dims.size() - 1, 1);
  channels[0] = out;
  return g.choose.chance(50) ? g.op(OpKind::Add, {y, g.param(channels, 0.2)}) : y;
}

// Upwards: x is what a convolution of the result would give.
Value *convUp(GraphMaker &g, Value *x, Value *) {
  x = image(g, x);
  Dims dims = {x->type.dims[0], 1 + g.choose.below(2)};
  Windows v(g, x->type.dims);
  for (size_t i = 0; i < v.window.size(); ++i) {
    int64_t extent = v.strides[i] * (x->type.dims[i + 2] - 1) + (v.window[i] - 1) * v.dilations[i] +
                     1 - v.low[i] - v.high[i];
    if (extent < 1) {
      extent += v.low[i] + v.high[i];
      v.low[i] = v.high[i] = 0;
    }
    dims.push_back(extent + g.choose.below(v.strides[i]));
  }
  Attrs attrs = v.attrs();
  attrs.set("dims", dims);
  return g.op(OpKind::ConvGradInput, {x, weights(g, x->type.dims[1], dims[1], v.window)}, attrs);
}

Value *pool(GraphMaker &g, Value *x, Value *) {
  x = image(g, x);
  Windows v(g, x->type.dims);
  Attrs attrs = v.attrs();
  attrs.set("window", v.window);
  if (g.choose.chance(50))
    return g.op(OpKind::MaxPool, {x}, attrs);
  attrs.set("count_padding", g.choose.chance(50));
  return g.op(OpKind::AvgPool, {x}, attrs);
}

} // namespace

void addWindowRows(std::vector<Row> &r) {
  r.push_back({"conv", {OpKind::Conv}, conv, true});
  r.push_back({"conv_up", {OpKind::ConvGradInput}, convUp, true});
  r.push_back({"pool", {OpKind::MaxPool, OpKind::AvgPool}, pool});
}

} // namespace ds::property
