// SPDX-License-Identifier: Apache-2.0
//
// Rows of elementwise ops. Arguments are brought where the op is smooth and bounded; of piecewise constant ops only a part
// is added to x, which keeps a gradient.
#include "test/property/Rows.h"

namespace ds::property {

template <OpKind K> static Value *unary(GraphMaker &g, Value *x, Value *) { return g.op(K, {x}); }

static Value *gelu(GraphMaker &g, Value *x, Value *) {
  return g.op(OpKind::Gelu, {x}, {{"tanh", g.choose.chance(50)}});
}
static Value *exp(GraphMaker &g, Value *x, Value *) {
  return g.op(OpKind::Exp, {g.op(OpKind::Tanh, {x})});
}
static Value *log(GraphMaker &g, Value *x, Value *) {
  return g.op(OpKind::Log, {g.plus(g.squared(x), 0.5)});
}
static Value *sqrt(GraphMaker &g, Value *x, Value *) {
  return g.op(OpKind::Sqrt, {g.plus(g.squared(x), 0.5)});
}
static Value *reciprocal(GraphMaker &g, Value *x, Value *) {
  return g.op(OpKind::Reciprocal, {g.plus(g.op(OpKind::Sin, {x}), 2)});
}

template <OpKind K> static Value *step(GraphMaker &g, Value *x, Value *) {
  Value *s = g.op(K, {g.plus(g.scaled(x, 1.37), 0.211)});
  return g.op(OpKind::Add, {x, g.scaled(s, 0.1)});
}

static Value *truncate(GraphMaker &g, Value *x, Value *) {
  static const std::vector<DType> types{DType::I32, DType::I64, DType::F64, DType::Bool};
  Value *v = g.plus(g.scaled(x, 1.37), 0.211);
  Value *back = g.cast(g.cast(v, g.choose.of(types)), DType::F32);
  return g.op(OpKind::Add, {x, g.scaled(back, 0.1)});
}

// Add, sub, mul, div, max, min with another value, or with a parameter that broadcasts.
static Value *other(GraphMaker &g, Value *x, Value *y) {
  const Dims &d = x->type.dims;
  if (g.choose.chance(60))
    return g.like(y, d);
  if (x->type.rank() < 2 || g.choose.chance(20))
    return g.param({}, 1);
  Dims shape(d.begin() + 1, d.end());
  if (g.choose.chance(50))
    shape[g.choose.below(static_cast<int64_t>(shape.size()))] = 1;
  if (g.choose.chance(30))
    shape.insert(shape.begin(), 1);
  return g.param(shape, 0.7);
}
template <OpKind K> static Value *binary(GraphMaker &g, Value *x, Value *y) {
  Value *o = other(g, x, y);
  return g.choose.chance(50) ? g.op(K, {x, o}) : g.op(K, {o, x});
}
static Value *residual(GraphMaker &g, Value *x, Value *y) {
  return g.op(OpKind::Add, {x, g.like(y, x->type.dims)});
}
static Value *gate(GraphMaker &g, Value *x, Value *y) {
  return g.op(OpKind::Mul, {x, g.op(OpKind::Sigmoid, {other(g, x, y)})});
}
static Value *product(GraphMaker &g, Value *x, Value *y) {
  return g.op(OpKind::Mul, {g.op(OpKind::Tanh, {x}), g.op(OpKind::Cos, {other(g, x, y)})});
}
static Value *divide(GraphMaker &g, Value *x, Value *y) {
  return g.op(OpKind::Div, {x, g.plus(g.squared(other(g, x, y)), 1)});
}
static Value *mod(GraphMaker &g, Value *x, Value *y) {
  Value *by = g.plus(g.op(OpKind::Tanh, {other(g, x, y)}), 2.5);
  Value *m = g.op(OpKind::Mod, {g.scaled(x, 2), by}, {{"fmod", g.choose.chance(50)}});
  return g.op(OpKind::Add, {x, g.scaled(m, 0.2)});
}

// Bases in [1, 2]; exponents as constants of float and integer types, parameters and values.
static Value *pow(GraphMaker &g, Value *x, Value *y) {
  Value *base = g.plus(g.op(OpKind::Sigmoid, {x}), 1);
  static const std::vector<double> exponents{2, 0.5, 3, -1.5, 0, 1};
  switch (g.choose.below(4)) {
  case 0:
    return g.op(OpKind::Pow, {base, g.fill(g.choose.of(exponents))});
  case 1:
    return g.op(OpKind::Pow, {base, g.fill(g.choose.below(4), {}, DType::I64)});
  case 2:
    return g.op(OpKind::Pow, {base, g.op(OpKind::Tanh, {other(g, x, y)})});
  default:
    return g.op(OpKind::Pow, {base, g.param({}, 1)});
  }
}

static Value *condition(GraphMaker &g, Value *x, Value *y) {
  static const std::vector<OpKind> compare{OpKind::Lt, OpKind::Le, OpKind::Gt, OpKind::Ge,
                                           OpKind::Eq};
  Value *a = g.op(g.choose.of(compare), {x, g.like(y, x->type.dims)});
  Value *c = nullptr;
  switch (g.choose.below(4)) {
  case 0:
    return a;
  case 1:
    c = g.op(OpKind::IsNan, {y});
    break;
  case 2:
    c = g.op(OpKind::IsInf, {y}, {{"positive", g.choose.chance(50)}});
    break;
  default:
    c = g.op(OpKind::Gt, {g.scaled(y, 0.5), g.fill(0.05)});
    break;
  }
  if (c->type.dims != x->type.dims)
    c = g.op(OpKind::Gt, {x, g.fill(0.3)});
  static const std::vector<OpKind> join{OpKind::And, OpKind::Or, OpKind::Xor};
  return g.op(g.choose.of(join), {a, g.choose.chance(50) ? g.op(OpKind::Not, {c}) : c});
}
static Value *where(GraphMaker &g, Value *x, Value *y) {
  Value *c = condition(g, x, y), *o = other(g, x, y);
  return g.choose.chance(50) ? g.op(OpKind::Where, {c, x, o}) : g.op(OpKind::Where, {c, o, x});
}

static Value *dropout(GraphMaker &g, Value *x, Value *) {
  double ratio = 0.125 * static_cast<double>(g.choose.below(5));
  return g.op(OpKind::Dropout, {x, g.rng()},
              {{"ratio", ratio}, {"key", g.choose.below(4)}, {"rows", g.rows}});
}

void addElementwiseRows(std::vector<Row> &r) {
  r.push_back({"neg", {OpKind::Neg}, unary<OpKind::Neg>});
  r.push_back({"abs", {OpKind::Abs}, unary<OpKind::Abs>});
  r.push_back({"tanh", {OpKind::Tanh}, unary<OpKind::Tanh>});
  r.push_back({"sigmoid", {OpKind::Sigmoid}, unary<OpKind::Sigmoid>});
  r.push_back({"erf", {OpKind::Erf}, unary<OpKind::Erf>});
  r.push_back({"sin", {OpKind::Sin}, unary<OpKind::Sin>});
  r.push_back({"cos", {OpKind::Cos}, unary<OpKind::Cos>});
  r.push_back({"relu", {OpKind::Relu}, unary<OpKind::Relu>});
  r.push_back({"gelu", {OpKind::Gelu}, gelu});
  r.push_back({"exp", {OpKind::Exp}, exp});
  r.push_back({"log", {OpKind::Log}, log});
  r.push_back({"sqrt", {OpKind::Sqrt}, sqrt});
  r.push_back({"reciprocal", {OpKind::Reciprocal}, reciprocal});
  r.push_back({"sign", {OpKind::Sign}, step<OpKind::Sign>});
  r.push_back({"floor", {OpKind::Floor}, step<OpKind::Floor>});
  r.push_back({"ceil", {OpKind::Ceil}, step<OpKind::Ceil>});
  r.push_back({"round", {OpKind::Round}, step<OpKind::Round>});
  r.push_back({"truncate", {OpKind::Cast}, truncate});
  r.push_back({"add", {OpKind::Add}, binary<OpKind::Add>});
  r.push_back({"sub", {OpKind::Sub}, binary<OpKind::Sub>});
  r.push_back({"max", {OpKind::Max}, binary<OpKind::Max>});
  r.push_back({"min", {OpKind::Min}, binary<OpKind::Min>});
  r.push_back({"residual", {OpKind::Add}, residual});
  r.push_back({"gate", {OpKind::Mul, OpKind::Sigmoid}, gate});
  r.push_back({"product", {OpKind::Mul}, product});
  r.push_back({"divide", {OpKind::Div}, divide});
  r.push_back({"mod", {OpKind::Mod}, mod});
  r.push_back({"pow", {OpKind::Pow}, pow});
  r.push_back({"dropout", {OpKind::Dropout}, dropout});
  r.push_back({"where",
               {OpKind::Where, OpKind::Eq, OpKind::Lt, OpKind::Le, OpKind::Gt, OpKind::Ge,
                OpKind::And, OpKind::Or, OpKind::Xor, OpKind::Not, OpKind::IsNan, OpKind::IsInf},
               where});
}

} // namespace ds::property
