// SPDX-License-Identifier: Apache-2.0
//
// Indexing. Everything becomes a gather along axis 0 of a flattened tensor with flat indices; negative
// indices count from the end of their axis.
#include "frontend/OnnxEval.h"

#include <algorithm>
#include <numeric>

namespace ds {

Status convertGather(Converter &c) {
  TRY(c.wantTensors(2, 2));
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", 0), c.rank(0)));
  EMIT(x, c.value(0));
  return c.result(c.gather(x, c.in[1], axis));
}

// i where i >= 0, else i + extent.
static StatusOr<Value *> fromFront(Converter &c, Value *i, int64_t extent) {
  DType t = i->type.dtype;
  EMIT(zero, c.scalar(t, 0));
  EMIT(size, c.scalar(t, static_cast<double>(extent)));
  EMIT(negative, c.emit(OpKind::Lt, {i, zero}, {}, ".negative"));
  EMIT(moved, c.emit(OpKind::Add, {i, size}, {}, ".moved"));
  return c.emit(OpKind::Where, {negative, moved, i}, {}, ".index");
}

// i * stride, summed into flat (null at first).
static StatusOr<Value *> addIndex(Converter &c, Value *flat, Value *i, int64_t stride) {
  if (stride != 1) {
    EMIT(s, c.scalar(i->type.dtype, static_cast<double>(stride)));
    TRY_ASSIGN(i, c.emit(OpKind::Mul, {i, s}, {}, ".scaled"));
  }
  return flat ? c.emit(OpKind::Add, {flat, i}, {}, ".flat") : StatusOr<Value *>(i);
}

// out[p] = data[p with p[axis] replaced by indices[p]].
Status convertGatherElements(Converter &c) {
  TRY(c.wantTensors(2, 2));
  const Dims d = c.dims(0), n = c.dims(1);
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", 0), c.rank(0)));
  if (n.size() != d.size())
    return c.error("data " + dimsText(d) + " and indices " + dimsText(n) + " differ in rank");
  for (size_t a = 0; a < d.size(); ++a)
    if (static_cast<int64_t>(a) != axis && n[a] > d[a])
      return c.error("indices " + dimsText(n) + " exceed data " + dimsText(d));
  EMIT(x, c.value(0));
  EMIT(i, c.value(1));
  DType t = i->type.dtype;
  Dims strides = stridesOf(d);
  TRY_ASSIGN(i, fromFront(c, i, d[axis]));
  EMIT(flat, addIndex(c, nullptr, i, strides[axis]));
  for (size_t a = 0; a < d.size(); ++a) {
    if (static_cast<int64_t>(a) == axis || n[a] == 1)
      continue;
    Dims only(d.size(), 1);
    only[a] = n[a];
    EMIT(p, c.iota(t, only, static_cast<int64_t>(a), 0, strides[a]));
    TRY_ASSIGN(flat, c.emit(OpKind::Add, {flat, p}, {}, ".flat"));
  }
  EMIT(row, c.reshape(x, {product(d)}, ".row"));
  return c.result(c.emit(OpKind::Gather, {row, flat}, {{"axis", int64_t(0)}}));
}

// Rows of x at known indices [i.., k]: one gather, a slice or nothing where they follow one another.
static Status gatherKnown(Converter &c, Value *x, const Known &indices) {
  const Dims d = x->type.dims;
  size_t width = static_cast<size_t>(indices.dims.back());
  Dims front(d.begin(), d.begin() + width), strides = stridesOf(front);
  std::vector<int64_t> idx = indices.list(), rows;
  for (size_t i = 0; i < idx.size(); i += width) {
    int64_t row = 0;
    for (size_t k = 0; k < width; ++k) {
      int64_t v = idx[i + k];
      if (v < -d[k] || v >= d[k])
        return c.error("index " + std::to_string(v) + " is outside axis " + std::to_string(k) +
                       " with extent " + std::to_string(d[k]));
      row += (v < 0 ? v + d[k] : v) * strides[k];
    }
    rows.push_back(row);
  }
  Dims table(d.begin() + width, d.end());
  table.insert(table.begin(), product(front));
  EMIT(flat, c.reshape(x, table, ".rows"));
  Dims positions(indices.dims.begin(), indices.dims.end() - 1);
  return c.result(c.gather(flat, makeInts(DType::I64, positions, std::move(rows)), 0));
}

// indices [b.., i.., k] into data [b.., d1..dk, rest..].
Status convertGatherND(Converter &c) {
  TRY(c.wantTensors(2, 2));
  const Dims d = c.dims(0), n = c.dims(1);
  int64_t batch = c.node->i("batch_dims", 0), rank = c.rank(0), idxRank = c.rank(1);
  int64_t width = n.empty() ? 0 : n.back();
  if (batch < 0 || batch >= idxRank || batch + width > rank || width < 1)
    return c.error("batch_dims " + std::to_string(batch) + " and indices " + dimsText(n) +
                   " do not fit data " + dimsText(d));
  for (int64_t a = 0; a < batch; ++a)
    if (n[a] != d[a])
      return c.error("batch axes of data " + dimsText(d) + " and indices " + dimsText(n) +
                     " differ");
  EMIT(x, c.value(0));
  if (c.in[1].known && batch == 0 && c.in[1].known->elems() <= kMaxKnown)
    return gatherKnown(c, x, *c.in[1].known);
  EMIT(i, c.value(1));
  DType t = i->type.dtype;
  int64_t indexed = batch + width;
  Dims front(d.begin(), d.begin() + indexed), strides = stridesOf(front);
  Dims positions(n.begin(), n.end() - 1);
  Value *flat = nullptr;
  for (int64_t k = 0; k < width; ++k) {
    Dims first(n.size(), 0), limit = n, ones(n.size(), 1);
    first.back() = k;
    limit.back() = k + 1;
    EMIT(part, c.slice(i, first, limit, ones, ".part"));
    TRY_ASSIGN(part, c.reshape(part, positions, ".part"));
    TRY_ASSIGN(part, fromFront(c, part, d[batch + k]));
    TRY_ASSIGN(flat, addIndex(c, flat, part, strides[batch + k]));
  }
  for (int64_t a = 0; a < batch; ++a) {
    Dims only(positions.size(), 1);
    only[a] = d[a];
    EMIT(p, c.iota(t, only, a, 0, strides[a]));
    TRY_ASSIGN(flat, c.emit(OpKind::Add, {flat, p}, {}, ".flat"));
  }
  Dims rows(d.begin() + indexed, d.end());
  rows.insert(rows.begin(), product(front));
  EMIT(table, c.reshape(x, rows, ".rows"));
  return c.result(c.emit(OpKind::Gather, {table, flat}, {{"axis", int64_t(0)}}));
}

// With known indices a scatter is a gather from data and updates laid one after the other; so both get
// exact gradients. Where indices repeat, the last update stands.
Status convertScatterND(Converter &c) {
  TRY(c.wantTensors(3, 3));
  if (std::string r = c.node->s("reduction", "none"); r != "none")
    return c.error("reduction is '" + r + "', only none is supported");
  TRY_ASSIGN(std::vector<int64_t> idx, c.known(1, "indices"));
  const Dims d = c.dims(0), n = c.dims(1);
  int64_t width = n.empty() ? 0 : n.back(), rank = c.rank(0);
  if (width < 1 || width > rank)
    return c.error("indices " + dimsText(n) + " do not fit data " + dimsText(d));
  Dims front(d.begin(), d.begin() + width), strides = stridesOf(front);
  Dims want(n.begin(), n.end() - 1);
  want.insert(want.end(), d.begin() + width, d.end());
  if (c.dims(2) != want)
    return c.error("updates have shape " + dimsText(c.dims(2)) + ", expected " + dimsText(want));
  int64_t rows = product(front), row = product(Dims(d.begin() + width, d.end()));
  if (rows > kMaxKnown)
    return c.error("data " + dimsText(d) + " has too many rows to index");
  std::vector<int64_t> from(static_cast<size_t>(rows));
  std::iota(from.begin(), from.end(), 0);
  for (size_t u = 0; u * width < idx.size(); ++u) {
    int64_t at = 0;
    for (int64_t k = 0; k < width; ++k) {
      int64_t v = idx[u * width + k];
      if (v < -d[k] || v >= d[k])
        return c.error("index " + std::to_string(v) + " is outside axis " + std::to_string(k) +
                       " with extent " + std::to_string(d[k]));
      at += (v < 0 ? v + d[k] : v) * strides[k];
    }
    from[at] = rows + static_cast<int64_t>(u);
  }
  EMIT(x, c.value(0));
  EMIT(up, c.value(2));
  EMIT(xr, c.reshape(x, {rows, row}, ".rows"));
  EMIT(ur, c.reshape(up, {product(Dims(n.begin(), n.end() - 1)), row}, ".updates"));
  EMIT(both, c.emit(OpKind::Concat, {xr, ur}, {{"axis", int64_t(0)}}, ".both"));
  EMIT(out, c.gather(both, makeIntList(from), 0, ".picked"));
  return c.result(c.reshape(out, d));
}

} // namespace ds
