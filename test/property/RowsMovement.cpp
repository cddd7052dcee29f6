// SPDX-License-Identifier: Apache-2.0
//
// Rows that move elements: within a sample, or, for transposes, with the samples' axis there and back.
#include "test/property/Rows.h"

namespace ds::property {

// Merges an axis into the samples' axis, merges the others, or splits the last.
static Value *reshaped(GraphMaker &g, Value *x, Value *) {
  Dims d = g.matrix(x)->type.dims;
  x = g.matrix(x);
  switch (g.choose.below(3)) {
  case 0:
    return g.reshape(x, {d[0], x->type.elems() / d[0]});
  case 1:
    if (d.size() > 2) {
      d[0] *= d[1];
      d.erase(d.begin() + 1);
    }
    return g.reshape(x, d);
  default:
    for (int64_t k : {2, 3})
      if (d.back() % k == 0 && d.back() > k) {
        d.back() /= k;
        d.push_back(k);
        break;
      }
    return g.reshape(x, d);
  }
}

static Value *transposed(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t rank = x->type.rank();
  Dims perm(rank), back(rank);
  bool moveSamples = g.choose.chance(50);
  for (int64_t i = 0; i < rank; ++i) // turn the axes round, or all but the first
    perm[i] = moveSamples ? rank - 1 - i : (i == 0 ? 0 : rank - i);
  Value *t = g.op(OpKind::Transpose, {x}, {{"perm", perm}});
  if (!moveSamples)
    return t;
  t = g.op(OpKind::Add, {t, g.op(OpKind::Tanh, {t})});
  for (int64_t i = 0; i < rank; ++i)
    back[perm[i]] = i;
  return g.op(OpKind::Transpose, {t}, {{"perm", back}});
}

static Value *repeated(GraphMaker &g, Value *x, Value *) {
  Dims d = x->type.dims;
  d.insert(d.begin() + 1, 1);
  x = g.reshape(x, d);
  d[1] = 2 + g.choose.below(2);
  return g.op(OpKind::Broadcast, {x}, {{"dims", d}});
}

static Value *slice(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  Dims limits = x->type.dims, starts(limits.size(), 0), strides(limits.size(), 1);
  int64_t axis = g.axis(x), n = limits[axis];
  starts[axis] = g.choose.below(n);
  limits[axis] = starts[axis] + 1 + g.choose.below(n - starts[axis]);
  strides[axis] = 1 + g.choose.below(3);
  return g.op(OpKind::Slice, {x}, {{"starts", starts}, {"limits", limits}, {"strides", strides}});
}

static Value *pad(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  size_t rank = x->type.dims.size();
  Dims low(rank, 0), high(rank, 0), interior(rank, 0);
  int64_t axis = g.axis(x), n = x->type.dims[axis];
  low[axis] = g.choose.below(n > 2 ? 4 : 3) - (n > 2 ? 1 : 0);
  high[axis] = g.choose.below(n > 2 ? 4 : 3) - (n > 2 ? 1 : 0);
  interior[axis] = g.choose.below(3);
  return g.op(OpKind::Pad, {x},
              {{"low", low},
               {"high", high},
               {"interior", interior},
               {"value", g.choose.chance(50) ? 0.25 : 0.0}});
}

static Value *reverse(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  return g.op(OpKind::Reverse, {x}, {{"axes", Dims{g.axis(x)}}});
}

static Value *concat(GraphMaker &g, Value *x, Value *y) {
  x = g.matrix(x);
  llvm::SmallVector<Value *, 3> parts{x, g.sameDims(y, x->type.dims)};
  if (g.choose.chance(30))
    parts.push_back(x);
  int64_t axis = g.axis(x);
  return g.op(OpKind::Concat, parts, {{"axis", axis - (g.choose.chance(50) ? x->type.rank() : 0)}});
}

// Known indices, repeated and from the end too.
static Value *pick(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  int64_t axis = g.axis(x);
  auto n = static_cast<double>(x->type.dims[axis]);
  Dims shape{1 + g.choose.below(4)};
  if (g.choose.chance(30))
    shape.push_back(2);
  Value *at = g.constant(shape, -n, n, g.choose.chance(50) ? DType::I64 : DType::I32);
  return g.op(OpKind::Gather, {x, at},
              {{"axis", axis - (g.choose.chance(50) ? x->type.rank() : 0)}});
}

// Rows of a table by fed indices, from the front or the end, and by position.
static Value *embed(GraphMaker &g, Value *x, Value *) {
  int64_t words = 4 + g.choose.below(6), width = g.size();
  Value *ids = g.ids(words);
  if (!ids)
    return x;
  Value *table = g.param({words, width}, 0.8);
  if (g.choose.chance(30))
    ids = g.op(OpKind::Sub, {ids, g.fill(static_cast<double>(words), {}, ids->type.dtype)});
  Value *e = g.op(OpKind::Gather, {table, ids});
  if (g.choose.chance(50)) {
    int64_t n = e->type.dims[1];
    Value *at = g.op(OpKind::Iota, {}, {{"dims", Dims{n}}});
    e = g.op(OpKind::Add, {e, g.op(OpKind::Gather, {g.param({n + 2, width}, 0.5), at})});
  }
  return g.op(OpKind::Add, {e, g.like(x, e->type.dims)});
}

static Value *ramp(GraphMaker &g, Value *x, Value *) {
  x = g.matrix(x);
  Value *i =
      g.op(OpKind::Iota, {},
           {{"dims", Dims{x->type.dims.back()}}, {"start", int64_t(-1)}, {"step", int64_t(2)}});
  return g.op(OpKind::Add, {x, g.scaled(g.cast(i, DType::F32), 0.05)});
}

static Value *triangle(GraphMaker &g, Value *x, Value *) {
  if (x->type.rank() < 3)
    return x;
  return g.op(OpKind::Trilu, {x}, {{"upper", g.choose.chance(50)}, {"k", g.choose.below(3) - 1}});
}

void addMovementRows(std::vector<Row> &r) {
  r.push_back({"reshape", {OpKind::Reshape}, reshaped});
  r.push_back({"transpose", {OpKind::Transpose}, transposed});
  r.push_back({"repeat", {OpKind::Broadcast}, repeated});
  r.push_back({"slice", {OpKind::Slice}, slice});
  r.push_back({"pad", {OpKind::Pad}, pad});
  r.push_back({"reverse", {OpKind::Reverse}, reverse});
  r.push_back({"concat", {OpKind::Concat}, concat});
  r.push_back({"pick", {OpKind::Gather}, pick});
  r.push_back({"embed", {OpKind::Gather, OpKind::Iota}, embed, true});
  r.push_back({"ramp", {OpKind::Iota, OpKind::Fill, OpKind::Cast}, ramp});
  r.push_back({"triangle", {OpKind::Trilu}, triangle});
}

} // namespace ds::property
