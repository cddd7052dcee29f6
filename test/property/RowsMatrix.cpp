// SPDX-License-Identifier: Apache-2.0
//
// Rows of matrix products, normalisation, softmax and reductions.
#include "test/property/Rows.h"

#include <cmath>

namespace ds::property {

static double scaleFor(int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

static Value *linear(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t in = x->type.dims.back(), out = g.size();
  bool trans = g.choose.chance(40);
  Value *w = g.param(trans ? Dims{out, in} : Dims{in, out}, scaleFor(in));
  Value *y = g.op(OpKind::Matmul, {x, w}, {{"trans_b", trans}});
  return g.choose.chance(60) ? g.op(OpKind::Add, {y, g.param({out}, 0.2)}) : y;
}

// The same as one op.
static Value *linearWithBias(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t in = x->type.dims.back(), out = g.size();
  bool trans = g.choose.chance(40);
  Value *w = g.param(trans ? Dims{out, in} : Dims{in, out}, scaleFor(in));
  Value *y = g.op(OpKind::Linear, {x, w, g.param({out}, 0.2)}, {{"trans_b", trans}});
  return g.choose.chance(40) ? g.op(OpKind::Gelu, {y}, {{"tanh", g.choose.chance(50)}}) : y;
}

// x + tanh(x w + b): as wide as before, so that blocks with equal keys share their weights.
static Value *block(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t d = x->type.dims.back();
  Value *y = g.op(OpKind::Matmul, {x, g.param({d, d}, scaleFor(d))});
  y = g.op(OpKind::Tanh, {g.op(OpKind::Add, {y, g.param({d}, 0.2)})});
  return g.op(OpKind::Add, {x, y});
}

// A weight in front, for every sample: w[o,t] x[B,t,d], where the weight's gradient sums over the batch.
static Value *linearInFront(GraphMaker &g, Value *x, Value *) {
  if (x->type.rank() != 3)
    return x;
  int64_t in = x->type.dims[1], out = g.size();
  bool trans = g.choose.chance(50);
  Value *w = g.param(trans ? Dims{in, out} : Dims{out, in}, scaleFor(in));
  return g.op(OpKind::Matmul, {w, x}, {{"trans_a", trans}});
}

static Value *threeAxes(GraphMaker &g, Value *x) {
  int64_t n = x->type.elems() / x->type.dims[0];
  if (x->type.rank() == 3)
    return x;
  return g.reshape(x, n % 2 ? Dims{x->type.dims[0], 1, n} : Dims{x->type.dims[0], n / 2, 2});
}

// softmax(x y^T) x, masked to the past or not; the samples stay apart in the batch axis.
static Value *attention(GraphMaker &g, Value *x, Value *y) {
  x = threeAxes(g, x);
  y = g.sameDims(y, x->type.dims);
  int64_t t = x->type.dims[1], d = x->type.dims[2];
  bool transA = g.choose.chance(30);
  Value *left = transA ? g.op(OpKind::Transpose, {x}, {{"perm", Dims{0, 2, 1}}}) : x;
  Value *scores = g.op(OpKind::Matmul, {left, y}, {{"trans_a", transA}, {"trans_b", true}});
  scores = g.scaled(scores, scaleFor(d));
  if (g.choose.chance(50)) {
    Value *past = g.op(OpKind::Trilu, {g.fill(1, {t, t})}, {{"upper", false}});
    Value *seen = g.op(OpKind::Gt, {past, g.fill(0)});
    scores = g.op(OpKind::Where, {seen, scores, g.fill(-20)});
  }
  return g.op(OpKind::Matmul, {g.op(OpKind::Softmax, {scores}), x});
}

// The fused op: heads, repeated or not, of either layout, under any mask.
static Value *fusedAttention(GraphMaker &g, Value *x, Value *y) {
  x = threeAxes(g, x);
  y = g.sameDims(y, x->type.dims);
  int64_t b = x->type.dims[0], t = x->type.dims[1], d = x->type.dims[2];
  bool rowsFirst = g.choose.chance(50), causal = g.choose.chance(40);
  Dims one = rowsFirst ? Dims{b, t, 1, d} : Dims{b, 1, t, d};
  Value *k = g.reshape(x, one), *v = g.reshape(y, one), *q = k;
  if (g.choose.chance(50)) // two heads of q for one of k and v
    q = g.op(OpKind::Concat, {k, g.scaled(v, 0.5)}, {{"axis", rowsFirst ? 2 : 1}});
  llvm::SmallVector<Value *, 4> operands{q, k, v};
  if (g.choose.chance(40))
    operands.push_back(g.constant({t, t}, -1, 1));
  Value *o = g.op(OpKind::Attention, operands,
                  {{"scale", scaleFor(d)}, {"causal", causal}, {"rows_first", rowsFirst}});
  return g.reshape(o, {b, o->type.elems() / b / d, d});
}

static Value *rmsNorm(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t axis = g.axis(x);
  Dims tail(x->type.dims.begin() + axis, x->type.dims.end());
  return g.op(OpKind::RmsNorm, {x, g.plus(g.param(tail, 0.2), 1)}, {{"axis", axis}, {"eps", 0.1}});
}

static Value *softmax(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  if (g.choose.chance(50))
    return g.op(OpKind::Softmax, {x}, {{"axis", g.axis(x)}});
  return g.scaled(g.op(OpKind::LogSoftmax, {x}, {{"axis", g.axis(x)}}), 0.4);
}

// Something to normalise is added: constant rows would make the slope 1 / sqrt(eps).
static Value *layerNorm(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t axis = g.axis(x);
  Dims tail(x->type.dims.begin() + axis, x->type.dims.end());
  x = g.op(OpKind::Add, {x, g.constant(tail, -1, 1)});
  llvm::SmallVector<Value *, 3> operands{x, g.plus(g.param(tail, 0.2), 1)};
  if (g.choose.chance(60))
    operands.push_back(g.param(tail, 0.2));
  double eps = g.choose.chance(50) ? 1e-3 : 0.1;
  return g.op(OpKind::LayerNorm, operands,
              {{"axis", axis - (g.choose.chance(50) ? x->type.rank() : 0)}, {"eps", eps}});
}

static Value *reduce(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  Dims axes{g.axis(x)};
  if (x->type.rank() > 2 && g.choose.chance(40)) {
    axes.clear();
    for (int64_t a = 1; a < x->type.rank(); ++a)
      axes.push_back(a);
  }
  int64_t n = 1;
  for (int64_t a : axes)
    n *= x->type.dims[a];
  Attrs attrs{{"axes", axes}, {"keepdims", g.choose.chance(50)}};
  switch (g.choose.below(3)) {
  case 0:
    return g.scaled(g.op(OpKind::ReduceSum, {x}, attrs), scaleFor(n));
  case 1:
    return g.op(OpKind::ReduceMax, {x}, attrs);
  default:
    return g.op(OpKind::ReduceMin, {x}, attrs);
  }
}

void addMatrixRows(std::vector<Row> &r) {
  r.push_back({"linear", {OpKind::Matmul, OpKind::Add}, linear, true});
  r.push_back({"linear_with_bias", {OpKind::Linear}, linearWithBias, true});
  r.push_back({"linear_in_front", {OpKind::Matmul}, linearInFront, true});
  r.push_back(
      {"attention", {OpKind::Matmul, OpKind::Softmax, OpKind::Trilu, OpKind::Where}, attention});
  r.push_back({"softmax", {OpKind::Softmax, OpKind::LogSoftmax}, softmax});
  r.push_back({"layer_norm", {OpKind::LayerNorm}, layerNorm, true});
  r.push_back({"fused_attention", {OpKind::Attention, OpKind::Concat}, fusedAttention});
  r.push_back({"rms_norm", {OpKind::RmsNorm}, rmsNorm, true});
  r.push_back({"reduce", {OpKind::ReduceSum, OpKind::ReduceMax, OpKind::ReduceMin}, reduce});
  r.push_back({"block", {OpKind::Matmul, OpKind::Tanh}, block, true});
}

} // namespace ds::property
