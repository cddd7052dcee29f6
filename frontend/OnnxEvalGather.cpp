// SPDX-License-Identifier: Apache-2.0
//
// Evaluators of indexing; negative indices count from the end of their axis.
#include "frontend/OnnxEval.h"

namespace ds {

EvalResult evalGather(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1])
    return evalError(n, "expected two inputs");
  const Dims &d = in[0]->dims;
  TRY_ASSIGN(int64_t axis, evalAxis(n, n.i("axis", 0), static_cast<int64_t>(d.size())));
  Dims dims(d.begin(), d.begin() + axis);
  dims.insert(dims.end(), in[1]->dims.begin(), in[1]->dims.end());
  dims.insert(dims.end(), d.begin() + axis + 1, d.end());
  TRY(evalDims(n, dims));
  if (!fitsKnown(dims) || in[0]->elems() > kMaxKnown)
    return KnownList();
  Known x = expanded(*in[0]), out;
  std::vector<int64_t> index = in[1]->list(), map;
  int64_t outer = product(Dims(d.begin(), d.begin() + axis)), extent = d[axis];
  int64_t inner = product(Dims(d.begin() + axis + 1, d.end()));
  for (int64_t &i : index) {
    if (i < -extent || i >= extent)
      return evalError(n, "index " + std::to_string(i) + " is outside axis " +
                              std::to_string(axis) + " with extent " + std::to_string(extent));
    i += i < 0 ? extent : 0;
  }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i : index)
      for (int64_t k = 0; k < inner; ++k)
        map.push_back((o * extent + i) * inner + k);
  out.dims = out.stored = dims;
  moveElements(x, map, out);
  return KnownList{compressed(std::move(out))};
}

EvalResult evalGatherND(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1] || in[1]->dims.empty() || in[0]->dims.empty())
    return evalError(n, "expected two inputs of rank 1 or more");
  const Known &idx = *in[1];
  if (idx.floating())
    return evalError(n, "indices are " + std::string(text(idx.dtype)) + ", expected integers");
  const Dims &d = in[0]->dims;
  int64_t batch = n.i("batch_dims", 0), width = idx.dims.back();
  int64_t rank = static_cast<int64_t>(d.size());
  if (batch < 0 || batch >= static_cast<int64_t>(idx.dims.size()) || batch + width > rank)
    return evalError(n, "batch_dims " + std::to_string(batch) + " and indices " +
                            dimsText(idx.dims) + " do not fit data " + dimsText(d));
  if (batch != 0 || in[0]->elems() > kMaxKnown || width == 0)
    return KnownList();
  Known x = expanded(*in[0]), out;
  Dims strides = stridesOf(d);
  int64_t inner = product(Dims(d.begin() + width, d.end()));
  Known full = idx; // repeated leading axes of the indices repeat in the result
  full.stored.back() = width;
  if (idx.stored.back() != width) {
    Known only = idx;
    only.dims = idx.stored;
    only.dims.back() = width;
    full = expanded(only);
    full.dims = idx.dims;
  }
  std::vector<int64_t> map;
  for (size_t i = 0; i + width <= full.ints.size(); i += width) {
    int64_t at = 0;
    for (int64_t k = 0; k < width; ++k) {
      int64_t v = full.ints[i + k];
      if (v < -d[k] || v >= d[k])
        return evalError(n, "index " + std::to_string(v) + " is outside axis " + std::to_string(k) +
                                " with extent " + std::to_string(d[k]));
      at += (v < 0 ? v + d[k] : v) * strides[k];
    }
    for (int64_t k = 0; k < inner; ++k)
      map.push_back(at + k);
  }
  if (static_cast<int64_t>(map.size()) > kMaxKnown)
    return KnownList();
  out.dims.assign(idx.dims.begin(), idx.dims.end() - 1);
  out.stored.assign(full.stored.begin(), full.stored.end() - 1);
  out.dims.insert(out.dims.end(), d.begin() + width, d.end());
  out.stored.insert(out.stored.end(), d.begin() + width, d.end());
  moveElements(x, map, out);
  return KnownList{compressed(std::move(out))};
}

EvalResult evalGatherElements(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1] || in[1]->floating())
    return evalError(n, "expected data and integer indices");
  const Dims &d = in[0]->dims, &shape = in[1]->dims;
  TRY_ASSIGN(int64_t axis, evalAxis(n, n.i("axis", 0), static_cast<int64_t>(d.size())));
  bool fits = shape.size() == d.size();
  for (size_t a = 0; fits && a < d.size(); ++a)
    fits = static_cast<int64_t>(a) == axis || shape[a] <= d[a];
  if (!fits)
    return evalError(n, "indices " + dimsText(shape) + " do not fit data " + dimsText(d));
  if (!fitsKnown(shape) || in[0]->elems() > kMaxKnown)
    return KnownList();
  Known x = expanded(*in[0]), out;
  Dims from = stridesOf(d), to = stridesOf(shape);
  std::vector<int64_t> map = in[1]->list();
  for (size_t i = 0; i < map.size(); ++i) {
    int64_t v = map[i], at = 0;
    if (v < -d[axis] || v >= d[axis])
      return evalError(n, "index " + std::to_string(v) + " is outside axis " +
                              std::to_string(axis) + " with extent " + std::to_string(d[axis]));
    for (size_t a = 0; a < d.size(); ++a) {
      int64_t place = static_cast<int64_t>(i) / to[a] % shape[a];
      at += from[a] * (static_cast<int64_t>(a) != axis ? place : v < 0 ? v + d[axis] : v);
    }
    map[i] = at;
  }
  out.dims = out.stored = shape;
  moveElements(x, map, out);
  return KnownList{compressed(std::move(out))};
}

} // namespace ds
