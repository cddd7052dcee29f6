// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators that are not one core op.
#include "frontend/OnnxEval.h"

namespace ds {

// 1 / x is a reciprocal: exporters write either.
Status convertDiv(Converter &c) {
  TRY(c.wantTensors(2, 2));
  bool one = c.in[0].known && isFloat(c.dtype(0)) && c.in[0].known->splat() == 1.0 &&
             broadcast(c.dims(0), c.dims(1)) == c.dims(1);
  if (!one)
    return c.result(c.elementwise(OpKind::Div, c.in));
  if (size_t at = c.name.rfind(".div"); at != std::string::npos && at + 4 == c.name.size())
    c.name.replace(at, 4, ".reciprocal");
  return c.result(c.elementwise(OpKind::Reciprocal, {c.in[1]}));
}

Status convertPow(Converter &c) {
  TRY(c.wantTensors(2, 2));
  return c.result(c.elementwise(OpKind::Pow, c.in));
}

Status convertMod(Converter &c) {
  TRY(c.wantTensors(2, 2));
  bool fmod = c.node->i("fmod", 0) != 0;
  if (!fmod && isFloat(c.dtype(0)))
    return c.error("of floats needs fmod=1");
  return c.result(c.elementwise(OpKind::Mod, c.in, {{"fmod", fmod}}));
}

// Max, Min, Sum, Mean of any number of inputs, from the left.
Status convertVariadic(Converter &c) {
  TRY(c.wantTensors(1, 1 << 16));
  const std::string &op = c.node->op();
  OpKind k = op == "Max" ? OpKind::Max : op == "Min" ? OpKind::Min : OpKind::Add;
  OnnxVal sum = c.in[0];
  bool mean = op == "Mean" && c.in.size() > 1;
  for (size_t i = 1; i < c.in.size(); ++i) {
    bool last = i + 1 == c.in.size() && !mean;
    EMIT(v, c.elementwise(k, {sum, c.in[i]}, {}, last ? "" : ".part"));
    sum = v;
  }
  if (!mean)
    return c.result(c.value(sum));
  EMIT(n, c.scalar(sum.dtype(), static_cast<double>(c.in.size())));
  return c.result(c.elementwise(OpKind::Div, {sum, OnnxVal(n)}));
}

// Bounds: attributes before opset 11, then optional inputs; NaN passes.
Status convertClip(Converter &c) {
  TRY(c.wantTensors(1, 3));
  OnnxVal v = c.in[0], lo, hi;
  DType t = c.dtype(0);
  if (c.node->opset < 11) {
    if (c.node->attr("min"))
      lo = makeSplat(t, {}, c.node->f("min", 0));
    if (c.node->attr("max"))
      hi = makeSplat(t, {}, c.node->f("max", 0));
  } else {
    lo = c.has(1) ? c.in[1] : OnnxVal();
    hi = c.has(2) ? c.in[2] : OnnxVal();
  }
  if (lo) {
    EMIT(x, c.elementwise(OpKind::Max, {v, lo}, {}, hi ? ".min" : ""));
    v = x;
  }
  if (hi) {
    EMIT(x, c.elementwise(OpKind::Min, {v, hi}));
    v = x;
  }
  return c.result(c.value(v));
}

Status convertGelu(Converter &c) {
  TRY(c.wantTensors(1, 1));
  std::string how = c.node->s("approximate", "none");
  if (how != "none" && how != "tanh")
    return c.error("approximate is '" + how + "', expected none or tanh");
  EMIT(x, c.value(0));
  return c.result(c.emit(OpKind::Gelu, {x}, {{"tanh", how == "tanh"}}));
}

Status convertIsInf(Converter &c) {
  TRY(c.wantTensors(1, 1));
  EMIT(x, c.value(0));
  return c.result(c.emit(OpKind::IsInf, {x},
                         {{"positive", c.node->i("detect_positive", 1) != 0},
                          {"negative", c.node->i("detect_negative", 1) != 0}}));
}

// log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-|x|)).
Status convertSoftplus(Converter &c) {
  TRY(c.wantTensors(1, 1));
  EMIT(x, c.value(0));
  EMIT(abs, c.emit(OpKind::Abs, {x}, {}, ".abs"));
  EMIT(neg, c.emit(OpKind::Neg, {abs}, {}, ".neg"));
  EMIT(exp, c.emit(OpKind::Exp, {neg}, {}, ".exp"));
  EMIT(one, c.scalar(x->type.dtype, 1));
  EMIT(sum, c.emit(OpKind::Add, {exp, one}, {}, ".sum"));
  EMIT(log, c.emit(OpKind::Log, {sum}, {}, ".log"));
  EMIT(relu, c.emit(OpKind::Relu, {x}, {}, ".relu"));
  return c.result(c.emit(OpKind::Add, {relu, log}));
}

Status convertHardSigmoid(Converter &c) {
  TRY(c.wantTensors(1, 1));
  EMIT(x, c.value(0));
  DType t = x->type.dtype;
  EMIT(alpha, c.scalar(t, meantBy(static_cast<float>(c.node->f("alpha", 0.2f)))));
  EMIT(beta, c.scalar(t, meantBy(static_cast<float>(c.node->f("beta", 0.5f)))));
  EMIT(zero, c.scalar(t, 0));
  EMIT(one, c.scalar(t, 1));
  EMIT(scaled, c.emit(OpKind::Mul, {x, alpha}, {}, ".scaled"));
  EMIT(moved, c.emit(OpKind::Add, {scaled, beta}, {}, ".moved"));
  EMIT(low, c.emit(OpKind::Min, {moved, one}, {}, ".low"));
  return c.result(c.emit(OpKind::Max, {low, zero}));
}

// x where x >= 0, else alpha * x.
Status convertLeakyRelu(Converter &c) {
  TRY(c.wantTensors(1, 1));
  EMIT(x, c.value(0));
  DType t = x->type.dtype;
  EMIT(alpha, c.scalar(t, meantBy(static_cast<float>(c.node->f("alpha", 0.01f)))));
  EMIT(zero, c.scalar(t, 0));
  EMIT(scaled, c.emit(OpKind::Mul, {x, alpha}, {}, ".scaled"));
  EMIT(positive, c.emit(OpKind::Ge, {x, zero}, {}, ".positive"));
  return c.result(c.emit(OpKind::Where, {positive, x, scaled}));
}

// Cast and CastLike. Rounding attributes matter for 8-bit floats only, which do not exist here.
Status convertCast(Converter &c) {
  bool like = c.node->op() == "CastLike";
  TRY(c.wantTensors(like ? 2 : 1, like ? 2 : 1));
  DType to = DType::F32;
  if (like) {
    to = c.dtype(1);
  } else {
    StatusOr<DType> t = coreType(static_cast<int>(c.node->i("to", 0)));
    if (!t.ok())
      return c.error(t.status().entries().front().text);
    to = *t;
  }
  EMIT(x, c.value(0));
  return c.result(c.cast(x, to));
}

Status convertIdentity(Converter &c) {
  if (c.in.size() != 1 || !c.in[0])
    return c.error("expected one input");
  c.out = {c.in[0]};
  return {};
}

} // namespace ds
