// SPDX-License-Identifier: Apache-2.0
//
// Convolution and pooling. auto_pad and ceil_mode become explicit padding here: the core ops have only pads, and
// padding neither counts for a maximum nor, unless asked, for a mean.
#include "frontend/OnnxEval.h"

#include <algorithm>

namespace ds {

namespace {

constexpr int64_t kMaxWindow = int64_t(1)
                               << 31; // of extents and attributes, so that nothing here overflows

/// The attributes of a window over the axes behind batch and channels, all given.
struct Windows {
  Dims in, window, strides, low, high, dilations;
  std::string autoPad;

  int64_t reach(size_t i) const { return (window[i] - 1) * dilations[i] + 1; }
  /// Those that are not as usual.
  Attrs attrs() const {
    Attrs a;
    auto set = [&](const char *name, const Dims &d, int64_t usual) {
      if (std::any_of(d.begin(), d.end(), [&](int64_t v) { return v != usual; }))
        a.set(name, d);
    };
    set("strides", strides, 1);
    set("low", low, 0);
    set("high", high, 0);
    set("dilations", dilations, 1);
    return a;
  }
};

StatusOr<Dims> listOf(Converter &c, const char *name, size_t n, int64_t usual) {
  Dims list = c.node->ints(name).value_or(Dims(n, usual));
  if (list.size() != n)
    return c.error(std::string(name) + " has " + std::to_string(list.size()) +
                   " entries, expected " + std::to_string(n));
  for (int64_t v : list)
    if (v < usual || v >= kMaxWindow)
      return c.error(std::string(name) + " is " + dimsText(list) + ", expected " +
                     std::to_string(usual) + " or more");
  return list;
}

/// What is padded, but for SAME_*, which depends on the operator.
StatusOr<Windows> windowsOf(Converter &c, const Dims &dims, const Dims &window) {
  if (dims.size() < 3 || dims.size() > 5)
    return c.error("input has shape " + dimsText(dims) +
                   ", expected batch, channels and 1 to 3 axes");
  size_t n = dims.size() - 2;
  Windows w;
  w.in.assign(dims.begin() + 2, dims.end());
  for (int64_t d : w.in)
    if (d >= kMaxWindow)
      return c.error("input has shape " + dimsText(dims) + ", which is too large");
  TRY_ASSIGN(w.window, listOf(c, "kernel_shape", n, 1));
  if (!window.empty()) {
    if (c.node->attr("kernel_shape") && w.window != window)
      return c.error("kernel_shape is " + dimsText(w.window) + ", but the weights have " +
                     dimsText(window));
    w.window = window;
  } else if (!c.node->attr("kernel_shape")) {
    return c.error("attribute kernel_shape is missing");
  }
  TRY_ASSIGN(w.strides, listOf(c, "strides", n, 1));
  TRY_ASSIGN(w.dilations, listOf(c, "dilations", n, 1));
  TRY_ASSIGN(Dims pads, listOf(c, "pads", 2 * n, 0));
  w.autoPad = c.node->s("auto_pad", "NOTSET");
  if (w.autoPad == "VALID")
    pads.assign(2 * n, 0);
  else if (w.autoPad != "NOTSET" && w.autoPad != "SAME_UPPER" && w.autoPad != "SAME_LOWER")
    return c.error("auto_pad is " + w.autoPad +
                   ", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  w.low.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(n));
  w.high.assign(pads.begin() + static_cast<ptrdiff_t>(n), pads.end());
  return w;
}

bool isSame(const Windows &w) { return w.autoPad.rfind("SAME", 0) == 0; }

/// SAME_*: as many windows as strides fit into the input; an odd element of padding goes where the name says.
void padToSame(Windows &w) {
  if (!isSame(w))
    return;
  for (size_t i = 0; i < w.in.size(); ++i) {
    int64_t out = (w.in[i] + w.strides[i] - 1) / w.strides[i];
    int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + w.reach(i) - w.in[i]);
    w.low[i] = w.autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.high[i] = total - w.low[i];
  }
}

StatusOr<Dims> weightWindow(Converter &c) {
  const Dims &w = c.dims(1);
  if (w.size() != c.dims(0).size())
    return c.error("input has shape " + dimsText(c.dims(0)) + ", the weights " + dimsText(w) +
                   ": expected equal ranks");
  for (int64_t d : w)
    if (d < 1 || d >= kMaxWindow)
      return c.error("the weights have shape " + dimsText(w) + ", expected extents of 1 or more");
  return w.size() < 3 ? Dims() : Dims(w.begin() + 2, w.end());
}

/// The result, with the bias of input 2 if there is one.
Status withBias(Converter &c, OpKind k, Attrs attrs) {
  EMIT(x, c.value(0));
  EMIT(w, c.value(1));
  attrs.set("groups", c.node->i("group", 1));
  EMIT(y, c.emit(k, {x, w}, std::move(attrs), c.has(2) ? ".conv" : ""));
  if (!c.has(2))
    return c.result(y);
  EMIT(bias, c.value(2));
  Dims channels = {y->type.dims[1]};
  if (bias->type.dims != channels)
    return c.error("the bias has shape " + dimsText(bias->type.dims) + ", expected " +
                   dimsText(channels));
  channels.resize(y->type.dims.size() - 1, 1);
  EMIT(column, c.reshape(bias, channels, ".bias"));
  return c.result(c.emit(OpKind::Add, {y, column}));
}

} // namespace

Status convertConv(Converter &c) {
  TRY(c.wantTensors(2, 3));
  TRY_ASSIGN(Dims window, weightWindow(c));
  TRY_ASSIGN(Windows w, windowsOf(c, c.dims(0), window));
  padToSame(w);
  return withBias(c, OpKind::Conv, w.attrs());
}

// The gradient of a convolution for its input, whose extents are what output_padding and output_shape choose.
Status convertConvTranspose(Converter &c) {
  TRY(c.wantTensors(2, 3));
  TRY_ASSIGN(Dims window, weightWindow(c));
  TRY_ASSIGN(Windows w, windowsOf(c, c.dims(0), window));
  size_t n = window.size();
  TRY_ASSIGN(Dims more, listOf(c, "output_padding", n, 0));
  Dims wanted;
  if (c.node->attr("output_shape")) {
    TRY_ASSIGN(wanted, listOf(c, "output_shape", n, 1));
  } else if (isSame(w)) {
    for (size_t i = 0; i < n; ++i)
      wanted.push_back(w.in[i] * w.strides[i]);
  }
  int64_t groups = c.node->i("group", 1);
  if (groups < 1 || groups >= kMaxWindow)
    return c.error("group is " + std::to_string(groups) + ", expected 1 or more");
  Dims dims = {c.dims(0)[0], c.dims(1)[1] * groups};
  for (size_t i = 0; i < n; ++i) {
    if (more[i] >= w.strides[i])
      return c.error("output_padding " + dimsText(more) + " is not less than strides " +
                     dimsText(w.strides));
    if (w.in[i] < 1)
      return c.error("input has shape " + dimsText(c.dims(0)) + ", expected extents of 1 or more");
    int64_t whole = w.strides[i] * (w.in[i] - 1) + more[i] + w.reach(i);
    if (!wanted.empty()) {
      int64_t total = whole - wanted[i];
      if (more[i] - total >= w.strides[i])
        return c.error("output_shape " + dimsText(wanted) + " is larger than what " +
                       dimsText(w.in) + " gives without padding");
      whole = std::max(whole, wanted[i]); // the rest is as under output_padding
      total = std::max<int64_t>(0, total);
      w.low[i] = w.autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.high[i] = total - w.low[i];
    }
    dims.push_back(whole - w.low[i] - w.high[i]);
  }
  for (int64_t d : dims)
    if (d < 0)
      return c.error("pads are larger than the result");
  Attrs attrs = w.attrs();
  attrs.set("dims", dims);
  return withBias(c, OpKind::ConvGradInput, std::move(attrs));
}

// ceil_mode: one more window where the last is not whole, unless it would begin in the padding behind.
static Status padToCeil(Converter &c, Windows &w, bool countsPadding) {
  if (!c.node->i("ceil_mode", 0) || isSame(w))
    return {};
  for (size_t i = 0; i < w.in.size(); ++i) {
    int64_t room = w.in[i] + w.low[i] + w.high[i] - w.reach(i);
    if (room < 0)
      continue; // the shape rule says what is wrong
    int64_t last = (room + w.strides[i] - 1) / w.strides[i] * w.strides[i];
    if (last >= w.in[i] + w.low[i])
      last -= w.strides[i];
    if (last <= room)
      continue;
    if (countsPadding)
      return c.error("ceil_mode with count_include_pad, where the last window along axis " +
                     std::to_string(i + 2) +
                     " is cut off, is not supported: export with ceil_mode=0 and explicit pads");
    w.high[i] += last - room;
  }
  return {};
}

static Status convertPool(Converter &c, OpKind k) {
  TRY(c.wantTensors(1, 1));
  if (c.wantsOutput(1))
    return c.error("output Indices is not supported; leave it out");
  TRY_ASSIGN(Windows w, windowsOf(c, c.dims(0), {}));
  bool counts = k == OpKind::AvgPool && c.node->i("count_include_pad", 0);
  padToSame(w);
  TRY(padToCeil(c, w, counts));
  Attrs attrs = w.attrs();
  attrs.set("window", w.window);
  if (counts)
    attrs.set("count_padding", true);
  EMIT(x, c.value(0));
  return c.result(c.emit(k, {x}, std::move(attrs)));
}

Status convertMaxPool(Converter &c) { return convertPool(c, OpKind::MaxPool); }
Status convertAveragePool(Converter &c) { return convertPool(c, OpKind::AvgPool); }

// One window as large as the input.
Status convertGlobalPool(Converter &c) {
  TRY(c.wantTensors(1, 1));
  const Dims d = c.dims(0);
  if (d.size() < 3)
    return c.error("input has shape " + dimsText(d) + ", expected rank 3 or more");
  EMIT(x, c.value(0));
  Dims axes, window(d.begin() + 2, d.end());
  for (size_t i = 2; i < d.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (c.node->op() == "GlobalMaxPool")
    return c.result(c.emit(OpKind::MaxPool, {x}, {{"window", window}}));
  EMIT(sum, c.reduceSum(x, axes, true, ".sum"));
  EMIT(n, c.scalar(x->type.dtype, static_cast<double>(product(window))));
  return c.result(c.emit(OpKind::Div, {sum, n}));
}

} // namespace ds
