// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of normalisation and losses. Statistics and losses are kept in the accumulate type.
#include "ir/ShapesCommon.h"

namespace ds {

namespace {

/// The two normalisations of rows: rule labels, and how many statistics of a row they keep.
struct Norm {
  const char *kind, *axis, *params, *eps, *added;
  int statistics;
};
constexpr Norm kLayerNorm{"layer_norm_1", "layer_norm_2", "layer_norm_3",
                          "layer_norm_4", "layer_norm_5", 2};
constexpr Norm kRmsNorm{"rms_norm_1", "rms_norm_2", "rms_norm_3", "rms_norm_4", "rms_norm_5", 1};
constexpr Norm kLayerNormGrad{
    "layer_norm_grad_1", "layer_norm_grad_2", "layer_norm_grad_3", "", "layer_norm_grad_3", 2};
constexpr Norm kRmsNormGrad{
    "rms_norm_grad_1", "rms_norm_grad_2", "rms_norm_grad_3", "", "rms_norm_grad_3", 1};

// x[, another one that is added], then scale (and bias) -> [sum,] y, statistics: over axes [axis, rank); scale and bias have x's
// dtype and these axes' dims, statistics the dims before axis.
Status shapeNorm(const ShapeArgs &c, bool adds, const Norm &n) {
  const Type &x = c.in[0];
  TRY(wantKind(c, 0, Kinds::Float, n.kind));
  if (adds)
    TRY(wantType(c, 1, x.dtype, x.dims, n.added));
  TRY_ASSIGN(int64_t axis, normalAxis(c, c.attrs.i("axis", -1), x.rank(), n.axis));
  for (size_t i = adds ? 2 : 1; i < c.in.size(); ++i)
    TRY(wantType(c, static_cast<int>(i), x.dtype, tail(x.dims, axis), n.params));
  if (!(c.attrs.f("eps", 1e-5) >= 0))
    return c.error("eps " + doubleText(c.attrs.f("eps", 1e-5)) + " is less than 0", n.eps);
  for (int i = 0; i < (adds ? 2 : 1); ++i)
    TRY(addResult(c, x.dtype, x.dims));
  for (int i = 0; i < n.statistics; ++i)
    TRY(addResult(c, accumType(x.dtype), head(x.dims, axis)));
  return {};
}

// dy, x, scale, statistics[, what is added to dx] -> dx, and as many gradients of parameters as there are statistics.
Status shapeNormGrad(const ShapeArgs &c, const Norm &n) {
  const Type &x = c.in[1];
  TRY(wantKind(c, 1, Kinds::Float, n.kind));
  TRY_ASSIGN(int64_t axis, normalAxis(c, c.attrs.i("axis", -1), x.rank(), n.axis));
  TRY(wantType(c, 0, x.dtype, x.dims, n.params));
  TRY(wantType(c, 2, x.dtype, tail(x.dims, axis), n.params));
  for (int i = 0; i < n.statistics; ++i)
    TRY(wantType(c, 3 + i, accumType(x.dtype), head(x.dims, axis), n.params));
  if (int other = 3 + n.statistics; static_cast<int>(c.in.size()) > other)
    TRY(wantType(c, other, x.dtype, x.dims, n.added));
  TRY(addResult(c, x.dtype, x.dims));
  for (int i = 0; i < n.statistics; ++i)
    TRY(addResult(c, x.dtype, tail(x.dims, axis)));
  return {};
}

} // namespace

Status shapeLayerNorm(const ShapeArgs &c) { return shapeNorm(c, false, kLayerNorm); }
Status shapeAddLayerNorm(const ShapeArgs &c) { return shapeNorm(c, true, kLayerNorm); }
Status shapeLayerNormGrad(const ShapeArgs &c) { return shapeNormGrad(c, kLayerNormGrad); }
Status shapeRmsNorm(const ShapeArgs &c) { return shapeNorm(c, false, kRmsNorm); }
Status shapeAddRmsNorm(const ShapeArgs &c) { return shapeNorm(c, true, kRmsNorm); }
Status shapeRmsNormGrad(const ShapeArgs &c) { return shapeNormGrad(c, kRmsNormGrad); }

static Status wantChannels(const ShapeArgs &c, int x, const char *rule) {
  TRY(wantKind(c, x, Kinds::Float, "batch_norm_1"));
  if (c.in[x].rank() < 2)
    return c.error(operandText(x) + " is " + typeText(c.in[x]) +
                       ", expected batch, channels and more axes",
                   rule);
  if (!(c.attrs.f("eps", 1e-5) >= 0))
    return c.error("eps " + doubleText(c.attrs.f("eps", 1e-5)) + " is less than 0", "batch_norm_4");
  return {};
}

// batch_norm (x, scale, bias) -> y, mean, var: over all axes but 1.
Status shapeBatchNorm(const ShapeArgs &c) {
  TRY(wantChannels(c, 0, "batch_norm_2"));
  const Type &x = c.in[0];
  Dims channels = {x.dims[1]};
  for (int i = 1; i < 3; ++i)
    TRY(wantType(c, i, x.dtype, channels, "batch_norm_3"));
  TRY(addResult(c, x.dtype, x.dims));
  TRY(addResult(c, accumType(x.dtype), channels));
  return addResult(c, accumType(x.dtype), channels);
}

// batch_norm_grad (dy, x, scale, mean, var) -> dx, dscale, dbias.
Status shapeBatchNormGrad(const ShapeArgs &c) {
  TRY(wantChannels(c, 1, "batch_norm_2"));
  const Type &x = c.in[1];
  Dims channels = {x.dims[1]};
  TRY(wantType(c, 0, x.dtype, x.dims, "batch_norm_3"));
  TRY(wantType(c, 2, x.dtype, channels, "batch_norm_3"));
  for (int i = 3; i < 5; ++i)
    TRY(wantType(c, i, accumType(x.dtype), channels, "batch_norm_3"));
  TRY(addResult(c, x.dtype, x.dims));
  TRY(addResult(c, x.dtype, channels));
  return addResult(c, x.dtype, channels);
}

// track (running, v) -> running.
Status shapeTrack(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Arith, "track_1"));
  TRY(wantType(c, 1, c.in[0].dtype, c.in[0].dims, "track_1"));
  if (double keep = c.attrs.f("keep"); !(keep >= 0 && keep <= 1))
    return c.error("keep " + doubleText(keep) + " is not in [0, 1]", "track_2");
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// Operands 0 and 1 of both cross_entropy ops: logits[..,V] and labels[..].
static Status checkLogits(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "cross_entropy_1"));
  const Type &logits = c.in[0], &labels = c.in[1];
  if (logits.rank() < 1)
    return c.error("logits are " + typeText(logits) + ", expected a last axis of classes",
                   "cross_entropy_2");
  if (labels.dtype != DType::I64 && labels.dtype != DType::I32)
    return c.error("labels are " + typeText(labels) + ", expected i64 or i32", "cross_entropy_3");
  if (labels.dims != head(logits.dims, logits.rank() - 1))
    return c.error("labels are " + typeText(labels) + ", logits are " + typeText(logits) +
                       ": expected labels of " + dimsText(head(logits.dims, logits.rank() - 1)),
                   "cross_entropy_4");
  return {};
}

// cross_entropy (logits[..,V], labels[..], inv) -> loss, lse[..].
Status shapeCrossEntropy(const ShapeArgs &c) {
  TRY(checkLogits(c));
  TRY(wantType(c, 2, DType::F64, {}, "cross_entropy_5"));
  TRY(addResult(c, accumType(c.in[0].dtype), {}));
  return addResult(c, accumType(c.in[0].dtype), c.in[1].dims);
}

// cross_entropy_grad (logits, labels, lse, inv) -> the gradient of logits.
Status shapeCrossEntropyGrad(const ShapeArgs &c) {
  TRY(checkLogits(c));
  TRY(wantType(c, 2, accumType(c.in[0].dtype), c.in[1].dims, "cross_entropy_5"));
  TRY(wantType(c, 3, DType::F64, {}, "cross_entropy_5"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// Operands of both linear_cross_entropy ops: x[..,C], w[C,V] or [V,C], labels[..], then inv, and bias[V] behind.
static Status checkLinearLoss(const ShapeArgs &c, int numInverses) {
  TRY(wantKind(c, 0, Kinds::Float, "linear_cross_entropy_1"));
  TRY(wantSameDType(c, 1, 0, "linear_cross_entropy_1"));
  const Type &x = c.in[0], &w = c.in[1], &labels = c.in[2];
  if (x.rank() < 1 || w.rank() != 2)
    return c.error("x is " + typeText(x) + " and w " + typeText(w) +
                       ", expected rows [.., C] and a matrix",
                   "linear_cross_entropy_2");
  bool trans = c.attrs.flag("trans_w");
  if (w.dims[trans ? 1 : 0] != x.dims.back())
    return c.error("inner sizes differ: x has " + std::to_string(x.dims.back()) + ", w has " +
                       std::to_string(w.dims[trans ? 1 : 0]),
                   "linear_cross_entropy_2");
  if (labels.dtype != DType::I64 && labels.dtype != DType::I32)
    return c.error("labels are " + typeText(labels) + ", expected i64 or i32",
                   "linear_cross_entropy_3");
  TRY(wantType(c, 2, labels.dtype, head(x.dims, x.rank() - 1), "linear_cross_entropy_4"));
  for (int i = 0; i < numInverses; ++i)
    TRY(wantType(c, 3 + i, DType::F64, {}, "linear_cross_entropy_5"));
  int bias = 3 + numInverses;
  if (static_cast<int>(c.in.size()) > bias)
    TRY(wantType(c, bias, x.dtype, {w.dims[trans ? 0 : 1]}, "linear_cross_entropy_6"));
  return {};
}

// linear_cross_entropy (x, w, labels, inv[, bias]) -> loss.
Status shapeLinearCrossEntropy(const ShapeArgs &c) {
  TRY(checkLinearLoss(c, 1));
  return addResult(c, accumType(c.in[0].dtype), {});
}

// linear_cross_entropy_grad (x, w, labels, inv, scaled[, bias]) -> loss, dx, dw, dbias, which is empty without a bias.
Status shapeLinearCrossEntropyGrad(const ShapeArgs &c) {
  TRY(checkLinearLoss(c, 2));
  const Type &x = c.in[0], &w = c.in[1];
  TRY(addResult(c, accumType(x.dtype), {}));
  TRY(addResult(c, x.dtype, x.dims));
  TRY(addResult(c, w.dtype, w.dims));
  return addResult(c, w.dtype, {c.in.size() < 6 ? 0 : w.dims[c.attrs.flag("trans_w") ? 0 : 1]});
}

static Status checkMse(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Float, "mse_1"));
  TRY(wantType(c, 1, c.in[0].dtype, c.in[0].dims, "mse_2"));
  return wantType(c, 2, DType::F64, {}, "mse_3");
}

// mse (prediction, target, inv) -> loss.
Status shapeMse(const ShapeArgs &c) {
  TRY(checkMse(c));
  return addResult(c, accumType(c.in[0].dtype), {});
}

// mse_grad (prediction, target, inv) -> the gradient of prediction.
Status shapeMseGrad(const ShapeArgs &c) {
  TRY(checkMse(c));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

} // namespace ds
