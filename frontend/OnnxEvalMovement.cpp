// SPDX-License-Identifier: Apache-2.0
//
// Evaluators of operators that make or move elements.
#include "frontend/OnnxEval.h"

#include <algorithm>
#include <cmath>

namespace ds {

static KnownRef share(Known k) { return std::make_shared<Known>(std::move(k)); }

// The same elements in another shape; dims hold as many.
static KnownRef withDims(const Known &k, Dims dims) {
  Known out;
  if (k.storedElems() == 1) { // equal everywhere, whatever the shape
    out = k;
    out.stored.assign(dims.size(), 1);
    out.dims = std::move(dims);
    return share(std::move(out));
  }
  out = expanded(k);
  out.dims = out.stored = std::move(dims);
  return compressed(std::move(out));
}

EvalResult evalIdentity(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  return KnownList{in[0]};
}

EvalResult evalConstant(const OnnxNode &n, const KnownList &, int) {
  for (const onnx::AttributeProto &a : n.proto->attribute()) {
    if (a.name() == "value_float")
      return KnownList{makeSplat(DType::F32, {}, a.f())};
    if (a.name() == "value_int")
      return KnownList{makeInts(DType::I64, {}, {a.i()})};
    if (a.name() == "value_ints")
      return KnownList{makeIntList({a.ints().begin(), a.ints().end()})};
    if (a.name() == "value_floats") {
      Known k;
      k.dtype = DType::F32;
      k.floats.assign(a.floats().begin(), a.floats().end());
      k.dims = k.stored = {static_cast<int64_t>(k.floats.size())};
      return KnownList{share(std::move(k))};
    }
  }
  return evalError(
      n, "has no value, value_int(s) or value_float(s); strings and sparse tensors are not "
         "supported");
}

EvalResult evalConstantOfShape(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  Dims dims = in[0]->list();
  TRY(evalDims(n, dims));
  const auto *a = n.attr("value");
  if (!a)
    return KnownList{makeSplat(DType::F32, dims, 0)};
  TRY_ASSIGN(DType t, coreType(a->t().data_type()));
  OnnxFile none;
  if (a->t().data_location() == onnx::TensorProto::EXTERNAL)
    return evalError(n, "value lies in another file, expected it inside");
  TRY_ASSIGN(TensorHandle h, none.locate(a->t()));
  if (h.elems() != 1)
    return evalError(n, "value has " + std::to_string(h.elems()) + " elements, expected 1");
  KnownRef one = makeFromBytes(t, {}, h.source.bytes);
  Known k = *one;
  k.dims = k.stored = dims;
  for (int64_t &d : k.stored)
    d = d == 0 ? 0 : 1;
  if (k.storedElems() == 0)
    k.floats.clear(), k.ints.clear();
  return KnownList{share(std::move(k))};
}

// Shape and Size.
EvalResult evalShape(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  return KnownList(); // convertShape answers from the type
}

EvalResult evalRange(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 3 || !in[0] || !in[1] || !in[2] || in[0]->elems() != 1 || in[1]->elems() != 1 ||
      in[2]->elems() != 1)
    return evalError(n, "expected three scalars");
  if (in[1]->dtype != in[0]->dtype || in[2]->dtype != in[0]->dtype)
    return evalError(n, "start is " + std::string(text(in[0]->dtype)) + ", limit " +
                            std::string(text(in[1]->dtype)) + " and delta " +
                            std::string(text(in[2]->dtype)) + ", expected one type");
  Known k;
  k.dtype = in[0]->dtype;
  double count = 0;
  if (k.floating()) {
    double start = in[0]->floats[0], limit = in[1]->floats[0], delta = in[2]->floats[0];
    count = delta == 0 ? -1 : std::max(0.0, std::ceil((limit - start) / delta));
    if (!(count >= 0 && count <= static_cast<double>(kMaxKnown)))
      return evalError(n, "has no or too many elements");
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
      k.floats.push_back(roundTo(k.dtype, start + static_cast<double>(i) * delta));
  } else {
    __int128 start = in[0]->ints[0], limit = in[1]->ints[0], delta = in[2]->ints[0];
    if (delta == 0)
      return evalError(n, "delta is 0");
    __int128 span = limit - start;
    __int128 steps = span / delta + ((span % delta != 0) && ((span < 0) == (delta < 0)));
    if (steps < 0)
      steps = 0;
    if (steps > kMaxKnown)
      return evalError(n, "has too many elements");
    count = static_cast<double>(steps);
    for (int64_t i = 0; i < static_cast<int64_t>(steps); ++i)
      k.ints.push_back(static_cast<int64_t>(start + i * delta));
  }
  k.dims = k.stored = {static_cast<int64_t>(count)};
  return KnownList{share(std::move(k))};
}

EvalResult evalReshape(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1])
    return evalError(n, "expected two inputs");
  TRY_ASSIGN(Dims dims, reshapeDims(n, in[0]->dims, in[1]->list()));
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  return KnownList{withDims(*in[0], dims)};
}

EvalResult evalFlatten(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  int64_t rank = static_cast<int64_t>(in[0]->dims.size()), axis = n.i("axis", 1);
  if (axis < -rank || axis > rank)
    return evalError(n, "axis " + std::to_string(axis) + " is outside the rank");
  axis += axis < 0 ? rank : 0;
  const Dims &d = in[0]->dims;
  Dims to = {product(Dims(d.begin(), d.begin() + axis)), product(Dims(d.begin() + axis, d.end()))};
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  return KnownList{withDims(*in[0], to)};
}

// Axes come and go with extent 1, so the stored form changes the same way.
static EvalResult reshaped(const KnownRef &k, const Dims &dims) {
  Known out = *k;
  Dims stored;
  size_t from = 0;
  for (int64_t d : dims) {
    if (d == 1) {
      stored.push_back(1);
      continue;
    }
    while (from < k->dims.size() && k->dims[from] == 1)
      ++from;
    stored.push_back(k->stored[from++]);
  }
  out.dims = dims;
  out.stored = stored;
  return KnownList{share(std::move(out))};
}

EvalResult evalSqueeze(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0])
    return evalError(n, "an input is missing");
  TRY_ASSIGN(auto axes, evalAxes(n, in, 1, static_cast<int64_t>(in[0]->dims.size())));
  TRY_ASSIGN(Dims dims, squeezeDims(n, in[0]->dims, axes));
  return reshaped(in[0], dims);
}

EvalResult evalUnsqueeze(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0])
    return evalError(n, "an input is missing");
  std::vector<int64_t> axes;
  if (auto a = n.ints("axes"))
    axes = *a;
  else if (in.size() > 1 && in[1])
    axes = in[1]->list();
  TRY_ASSIGN(Dims dims, unsqueezeDims(n, in[0]->dims, axes));
  return reshaped(in[0], dims);
}

// result[i] = source[sum over axes of start + i * step], over the stored forms; steps in source elements.
static Known strided(const Known &k, const Dims &dims, const Dims &stored, const Dims &steps,
                     int64_t start) {
  Known out;
  out.dims = dims;
  out.stored = stored;
  std::vector<int64_t> map;
  int64_t total = product(stored);
  map.reserve(static_cast<size_t>(total));
  Dims index(stored.size(), 0);
  for (int64_t i = 0, at = start; i < total; ++i) {
    map.push_back(at);
    for (size_t a = stored.size(); a-- > 0;) {
      at += steps[a];
      if (++index[a] < stored[a])
        break;
      at -= steps[a] * stored[a];
      index[a] = 0;
    }
  }
  moveElements(k, map, out);
  return out;
}

EvalResult evalTranspose(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  const Known &k = *in[0];
  size_t rank = k.dims.size();
  std::vector<int64_t> perm = n.ints("perm").value_or(std::vector<int64_t>());
  if (!n.attr("perm"))
    for (size_t i = rank; i-- > 0;)
      perm.push_back(static_cast<int64_t>(i));
  std::vector<bool> seen(rank);
  Dims dims, stored, steps, source = stridesOf(k.stored);
  for (int64_t p : perm) {
    if (p < 0 || p >= static_cast<int64_t>(rank) || seen[p] || perm.size() != rank)
      return evalError(n, "perm " + dimsText(perm) + " is not a permutation of rank " +
                              std::to_string(rank));
    seen[p] = true;
    dims.push_back(k.dims[p]);
    stored.push_back(k.stored[p]);
    steps.push_back(source[p]);
  }
  if (perm.size() != rank)
    return evalError(n, "perm has " + std::to_string(perm.size()) + " entries, expected " +
                            std::to_string(rank));
  return KnownList{share(strided(k, dims, stored, steps, 0))};
}

EvalResult evalExpand(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1])
    return evalError(n, "expected two inputs");
  Dims to = in[1]->list();
  TRY(evalDims(n, to));
  std::optional<Dims> dims = broadcast(in[0]->dims, to);
  if (!dims)
    return evalError(n,
                     "shape " + dimsText(in[0]->dims) + " does not broadcast to " + dimsText(to));
  TRY(evalDims(n, *dims));
  Known out = *in[0];
  Dims lead(dims->size() - out.dims.size(), 1);
  out.stored.insert(out.stored.begin(), lead.begin(), lead.end());
  for (size_t i = 0; i < dims->size(); ++i)
    if ((*dims)[i] == 0)
      out.stored[i] = 0;
  out.dims = *dims;
  if (out.storedElems() == 0)
    out.ints.clear(), out.floats.clear();
  return KnownList{share(std::move(out))};
}

EvalResult evalTile(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1])
    return evalError(n, "expected two inputs");
  std::vector<int64_t> repeats = in[1]->list();
  Dims dims = in[0]->dims;
  if (repeats.size() != dims.size())
    return evalError(n, "repeats has " + std::to_string(repeats.size()) + " entries, the rank is " +
                            std::to_string(dims.size()));
  Known src = expanded(*in[0]);
  for (size_t i = 0; i < dims.size(); ++i)
    if (repeats[i] < 0 || __builtin_mul_overflow(dims[i], repeats[i], &dims[i]))
      return evalError(n, "repeats " + dimsText(repeats) + " are negative or too large");
  TRY(evalDims(n, dims));
  if (!fitsKnown(dims))
    return KnownList();
  Known out;
  out.dims = out.stored = dims;
  Dims to = stridesOf(dims), from = stridesOf(src.dims);
  std::vector<int64_t> map;
  for (int64_t i = 0; i < product(dims); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < dims.size(); ++a)
      at += i / to[a] % dims[a] % src.dims[a] * from[a];
    map.push_back(at);
  }
  moveElements(src, map, out);
  return KnownList{compressed(std::move(out))};
}

static EvalResult sliced(const KnownRef &k, const std::vector<SliceRange> &ranges) {
  Dims dims, stored, steps, source = stridesOf(k->stored);
  int64_t start = 0;
  for (size_t a = 0; a < ranges.size(); ++a) {
    dims.push_back(ranges[a].count);
    bool repeated = k->stored[a] == 1;
    stored.push_back(repeated && ranges[a].count > 0 ? 1 : ranges[a].count);
    steps.push_back(repeated ? 0 : source[a] * ranges[a].step);
    start += repeated ? 0 : source[a] * ranges[a].start;
  }
  return KnownList{share(strided(*k, dims, stored, steps, start))};
}

EvalResult evalSlice(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0])
    return evalError(n, "an input is missing");
  std::vector<int64_t> starts, ends;
  std::optional<std::vector<int64_t>> axes, steps;
  if (n.attr("starts")) {
    starts = *n.ints("starts");
    ends = n.ints("ends").value_or(std::vector<int64_t>());
    axes = n.ints("axes");
  } else {
    if (in.size() < 3 || !in[1] || !in[2])
      return evalError(n, "starts or ends is missing");
    starts = in[1]->list();
    ends = in[2]->list();
    if (in.size() > 3 && in[3])
      axes = in[3]->list();
    if (in.size() > 4 && in[4])
      steps = in[4]->list();
  }
  TRY_ASSIGN(auto ranges, sliceRanges(n, in[0]->dims, starts, ends, axes, steps));
  return sliced(in[0], ranges);
}

EvalResult evalSplit(const OnnxNode &n, const KnownList &in, int outputs) {
  if (in.empty() || !in[0])
    return evalError(n, "an input is missing");
  const Dims &d = in[0]->dims;
  TRY_ASSIGN(int64_t axis, evalAxis(n, n.i("axis", 0), static_cast<int64_t>(d.size())));
  std::optional<std::vector<int64_t>> split = n.ints("split");
  if (in.size() > 1 && in[1])
    split = in[1]->list();
  TRY_ASSIGN(auto sizes, splitSizes(n, d[axis], outputs, split));
  KnownList out;
  int64_t at = 0;
  for (int64_t size : sizes) {
    std::vector<SliceRange> ranges;
    for (int64_t e : d)
      ranges.push_back({0, e, 1});
    ranges[axis] = {at, size, 1};
    TRY_ASSIGN(KnownList part, sliced(in[0], ranges));
    out.push_back(part[0]);
    at += size;
  }
  return out;
}

EvalResult evalConcat(const OnnxNode &n, const KnownList &in, int) {
  for (const KnownRef &k : in)
    if (!k || k->dims.size() != in[0]->dims.size() || k->dtype != in[0]->dtype)
      return evalError(n, "inputs differ in rank or element type");
  if (in.empty() || in[0]->dims.empty())
    return evalError(n, "expected inputs of rank 1 or more");
  TRY_ASSIGN(int64_t axis, evalAxis(n, n.i("axis", 0), static_cast<int64_t>(in[0]->dims.size())));
  Dims dims = in[0]->dims, stored(dims.size(), 1);
  dims[axis] = 0;
  for (const KnownRef &k : in) {
    for (size_t a = 0; a < dims.size(); ++a) {
      if (static_cast<int64_t>(a) == axis)
        continue;
      if (k->dims[a] != dims[a])
        return evalError(n, "shapes " + dimsText(in[0]->dims) + " and " + dimsText(k->dims) +
                                " differ outside axis " + std::to_string(axis));
      stored[a] = std::max(stored[a], k->stored[a]);
      if (dims[a] == 0)
        stored[a] = 0;
    }
    dims[axis] += k->dims[axis];
  }
  stored[axis] = dims[axis];
  TRY(evalDims(n, dims));
  if (!fitsKnown(stored))
    return KnownList();
  Known out;
  out.dtype = in[0]->dtype;
  out.dims = dims;
  out.stored = stored;
  int64_t outer = product(Dims(stored.begin(), stored.begin() + axis));
  int64_t inner = product(Dims(stored.begin() + axis + 1, stored.end()));
  auto run = [&](auto member) {
    auto &dst = out.*member;
    dst.resize(static_cast<size_t>(outer * stored[axis] * inner));
    int64_t at = 0;
    for (const KnownRef &k : in) {
      // The part with the result's repeated axes left out, and its own put in.
      Known part = *k;
      part.dims = stored;
      part.dims[axis] = k->dims[axis];
      part = expanded(part);
      const auto &src = part.*member;
      int64_t n = k->dims[axis];
      for (int64_t o = 0; o < outer; ++o)
        std::copy_n(src.begin() + o * n * inner, n * inner,
                    dst.begin() + (o * stored[axis] + at) * inner);
      at += n;
    }
  };
  if (out.floating())
    run(&Known::floats);
  else
    run(&Known::ints);
  return KnownList{out.storedElems() <= kMaxCompress ? compressed(std::move(out))
                                                     : share(std::move(out))};
}

EvalResult evalTrilu(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0] || in[0]->dims.size() < 2)
    return evalError(n, "expected an input of rank 2 or more");
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  int64_t k = 0;
  if (in.size() > 1 && in[1]) {
    if (in[1]->elems() != 1)
      return evalError(n, "k has " + std::to_string(in[1]->elems()) + " elements, expected 1");
    k = in[1]->list()[0];
  }
  bool upper = n.i("upper", 1) != 0;
  Known out = expanded(*in[0]);
  int64_t rows = out.dims[out.dims.size() - 2], cols = out.dims.back();
  for (int64_t i = 0; i < out.elems(); ++i) {
    int64_t row = i / cols % rows, col = i % cols;
    if (upper ? col - row >= k : col - row <= k)
      continue;
    if (out.floating())
      out.floats[i] = 0;
    else
      out.ints[i] = 0;
  }
  return KnownList{compressed(std::move(out))};
}

EvalResult evalCumSum(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 2 || !in[0] || !in[1] || in[1]->elems() != 1)
    return evalError(n, "expected a tensor and an axis");
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  Known x = expanded(*in[0]);
  int64_t rank = static_cast<int64_t>(x.dims.size());
  TRY_ASSIGN(int64_t axis, evalAxis(n, in[1]->list()[0], rank));
  bool exclusive = n.i("exclusive", 0) != 0, reverse = n.i("reverse", 0) != 0;
  int64_t extent = x.dims[axis], inner = stridesOf(x.dims)[axis];
  auto run = [&](auto &v) {
    for (int64_t o = 0; extent && o < static_cast<int64_t>(v.size()) / extent; ++o) {
      int64_t base = o / inner * inner * extent + o % inner;
      auto sum = v[base];
      sum = 0;
      for (int64_t i = 0; i < extent; ++i) {
        auto &e = v[base + (reverse ? extent - 1 - i : i) * inner];
        auto before = sum;
        sum += e;
        e = exclusive ? before : sum;
      }
    }
  };
  if (x.floating()) {
    run(x.floats);
    for (double &v : x.floats)
      v = roundTo(x.dtype, v);
  } else {
    std::vector<uint64_t> v(x.ints.begin(), x.ints.end()); // wraps without overflow
    run(v);
    for (size_t i = 0; i < v.size(); ++i)
      x.ints[i] = wrapTo(x.dtype, static_cast<int64_t>(v[i]));
  }
  return KnownList{compressed(std::move(x))};
}

EvalResult evalNonZero(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  Known x = expanded(*in[0]);
  Dims strides = stridesOf(x.dims);
  std::vector<int64_t> hits;
  for (int64_t i = 0; i < x.elems(); ++i)
    if (x.floating() ? x.floats[i] != 0 : x.ints[i] != 0)
      hits.push_back(i);
  std::vector<int64_t> out;
  for (size_t a = 0; a < x.dims.size(); ++a)
    for (int64_t i : hits)
      out.push_back(i / strides[a] % x.dims[a]);
  return KnownList{makeInts(
      DType::I64, {static_cast<int64_t>(x.dims.size()), static_cast<int64_t>(hits.size())}, out)};
}

} // namespace ds
