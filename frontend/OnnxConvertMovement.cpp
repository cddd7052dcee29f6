// SPDX-License-Identifier: Apache-2.0
//
// Operators that change shapes or move elements.
#include "frontend/OnnxEval.h"

#include <algorithm>

namespace ds {

Status convertReshape(Converter &c) {
  TRY(c.wantTensors(2, 2));
  TRY_ASSIGN(std::vector<int64_t> shape, c.known(1, "shape"));
  TRY_ASSIGN(Dims dims, reshapeDims(*c.node, c.dims(0), shape));
  EMIT(x, c.value(0));
  return c.result(c.reshape(x, dims));
}

Status convertFlatten(Converter &c) {
  TRY(c.wantTensors(1, 1));
  int64_t axis = c.node->i("axis", 1), rank = c.rank(0);
  if (axis < -rank || axis > rank)
    return c.error("axis " + std::to_string(axis) + " is outside rank " + std::to_string(rank));
  axis += axis < 0 ? rank : 0;
  const Dims &d = c.dims(0);
  EMIT(x, c.value(0));
  return c.result(c.reshape(
      x, {product(Dims(d.begin(), d.begin() + axis)), product(Dims(d.begin() + axis, d.end()))}));
}

// Axes from the attribute (old opsets) or input 1.
static StatusOr<std::optional<std::vector<int64_t>>> axesOf(Converter &c) {
  std::optional<std::vector<int64_t>> axes = c.node->ints("axes");
  if (!axes && c.has(1)) {
    TRY_ASSIGN(axes, c.known(1, "axes"));
  }
  return axes;
}

Status convertSqueeze(Converter &c) {
  TRY(c.wantTensors(1, 2));
  TRY_ASSIGN(auto axes, axesOf(c));
  if (axes) {
    TRY_ASSIGN(axes, c.axes(*axes, c.rank(0)));
  }
  TRY_ASSIGN(Dims dims, squeezeDims(*c.node, c.dims(0), axes));
  EMIT(x, c.value(0));
  return c.result(c.reshape(x, dims));
}

Status convertUnsqueeze(Converter &c) {
  TRY(c.wantTensors(1, 2));
  TRY_ASSIGN(auto axes, axesOf(c));
  if (!axes)
    return c.error("axes are missing");
  TRY_ASSIGN(Dims dims, unsqueezeDims(*c.node, c.dims(0), *axes));
  EMIT(x, c.value(0));
  return c.result(c.reshape(x, dims));
}

Status convertTranspose(Converter &c) {
  TRY(c.wantTensors(1, 1));
  std::vector<int64_t> perm = c.node->ints("perm").value_or(std::vector<int64_t>());
  if (!c.node->attr("perm"))
    for (int64_t i = c.rank(0); i-- > 0;)
      perm.push_back(i);
  EMIT(x, c.value(0));
  return c.result(c.transpose(x, perm));
}

Status convertExpand(Converter &c) {
  TRY(c.wantTensors(2, 2));
  TRY_ASSIGN(Dims shape, c.known(1, "shape"));
  TRY(c.checkDims(shape));
  std::optional<Dims> dims = broadcast(c.dims(0), shape);
  if (!dims)
    return c.error(dimsText(c.dims(0)) + " does not broadcast to " + dimsText(shape));
  EMIT(x, c.value(0));
  return c.result(c.broadcastTo(x, *dims));
}

// Negative steps: reverse the axis, then step forward through it.
Status convertSlice(Converter &c) {
  TRY(c.wantTensors(1, 5));
  std::vector<int64_t> starts, ends;
  std::optional<std::vector<int64_t>> axes, steps;
  if (c.node->opset < 10) {
    starts = c.node->ints("starts").value_or(std::vector<int64_t>());
    ends = c.node->ints("ends").value_or(std::vector<int64_t>());
    axes = c.node->ints("axes");
  } else {
    TRY_ASSIGN(starts, c.known(1, "starts"));
    TRY_ASSIGN(ends, c.known(2, "ends"));
    if (c.has(3)) {
      TRY_ASSIGN(axes, c.known(3, "axes"));
    }
    if (c.has(4)) {
      TRY_ASSIGN(steps, c.known(4, "steps"));
    }
  }
  Dims d = c.dims(0);
  TRY_ASSIGN(auto ranges, sliceRanges(*c.node, d, starts, ends, axes, steps));
  EMIT(x, c.value(0));
  std::vector<int64_t> reversed;
  Dims first(d.size()), limit(d.size()), stride(d.size());
  for (size_t a = 0; a < d.size(); ++a) {
    SliceRange r = ranges[a];
    if (r.step < 0) {
      reversed.push_back(static_cast<int64_t>(a));
      r = {d[a] - 1 - r.start, r.count, -r.step};
    }
    first[a] = r.start;
    stride[a] = r.step;
    limit[a] = r.count == 0 ? r.start : r.start + (r.count - 1) * r.step + 1;
  }
  if (!reversed.empty()) {
    TRY_ASSIGN(x, c.emit(OpKind::Reverse, {x}, {{"axes", reversed}}, ".reversed"));
  }
  return c.result(c.slice(x, first, limit, stride));
}

// The parts of x along axis.
static StatusOr<std::vector<OnnxVal>> split(Converter &c, Value *x, int64_t axis,
                                            const std::vector<int64_t> &sizes) {
  std::vector<OnnxVal> parts;
  const Dims d = x->type.dims;
  Dims ones(d.size(), 1), first(d.size(), 0), limit = d;
  for (size_t i = 0; i < sizes.size(); ++i) {
    limit[axis] = first[axis] + sizes[i];
    EMIT(v, c.slice(x, first, limit, ones, "." + std::to_string(i)));
    parts.emplace_back(v);
    first[axis] = limit[axis];
  }
  return parts;
}

Status convertSplit(Converter &c) {
  TRY(c.wantTensors(1, 2));
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", 0), c.rank(0)));
  std::optional<std::vector<int64_t>> given = c.node->ints("split");
  if (c.has(1)) {
    TRY_ASSIGN(given, c.known(1, "split"));
  }
  TRY_ASSIGN(auto sizes, splitSizes(*c.node, c.dims(0)[axis], c.node->proto->output_size(), given));
  EMIT(x, c.value(0));
  c.name = c.node->module.empty() ? c.name : c.node->module + ".split";
  TRY_ASSIGN(c.out, split(c, x, axis, sizes));
  return {};
}

Status convertConcat(Converter &c) {
  TRY(c.wantTensors(1, 1 << 16));
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", 0), c.rank(0)));
  std::vector<Value *> parts;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.rank(i) != c.rank(0))
      return c.error("inputs 0 and " + std::to_string(i) + " have shapes " + dimsText(c.dims(0)) +
                     " and " + dimsText(c.dims(i)));
    if (c.dims(i)[axis] == 0 && c.in.size() > 1) // an empty cache adds nothing
      continue;
    EMIT(v, c.value(i));
    parts.push_back(v);
  }
  if (parts.size() == 1) {
    c.out = {parts[0]};
    return {};
  }
  if (parts.empty())
    return c.result(c.value(0));
  return c.result(c.emit(OpKind::Concat, parts, {{"axis", axis}}));
}

// [d] repeated n times is [1,d] broadcast to [n,d] and flattened, for every axis at once.
Status convertTile(Converter &c) {
  TRY(c.wantTensors(2, 2));
  TRY_ASSIGN(std::vector<int64_t> repeats, c.known(1, "repeats"));
  const Dims d = c.dims(0);
  if (repeats.size() != d.size())
    return c.error("repeats has " + std::to_string(repeats.size()) + " entries, the rank is " +
                   std::to_string(d.size()));
  Dims apart, wide, flat;
  for (size_t a = 0; a < d.size(); ++a) {
    int64_t extent = 0;
    if (repeats[a] < 0 || __builtin_mul_overflow(d[a], repeats[a], &extent))
      return c.error("repeats " + dimsText(repeats) + " are negative or too large");
    flat.push_back(extent);
    if (repeats[a] != 1) {
      apart.push_back(1);
      wide.push_back(repeats[a]);
    }
    apart.push_back(d[a]);
    wide.push_back(d[a]);
  }
  TRY(c.checkDims(flat));
  EMIT(x, c.value(0));
  EMIT(r, c.reshape(x, apart, ".apart"));
  EMIT(w, c.broadcastTo(r, wide, ".wide"));
  return c.result(c.reshape(w, flat));
}

Status convertPad(Converter &c) {
  TRY(c.wantTensors(1, 4));
  std::string mode = c.node->s("mode", "constant");
  if (mode != "constant")
    return c.error("mode is '" + mode + "', only constant is supported");
  std::vector<int64_t> pads, axes;
  double value = c.node->f("value", 0);
  int64_t rank = c.rank(0);
  if (c.node->opset < 11) {
    pads = c.node->ints("pads").value_or(std::vector<int64_t>());
  } else {
    TRY_ASSIGN(pads, c.known(1, "pads"));
    if (c.has(2)) {
      TRY_ASSIGN(value, c.knownScalar(2, "constant_value"));
    }
  }
  if (c.has(3)) {
    TRY_ASSIGN(axes, c.known(3, "axes"));
  } else {
    for (int64_t a = 0; a < rank; ++a)
      axes.push_back(a);
  }
  if (pads.size() != 2 * axes.size())
    return c.error("pads has " + std::to_string(pads.size()) + " entries, expected " +
                   std::to_string(2 * axes.size()));
  Dims low(rank, 0), high(rank, 0), interior(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    TRY_ASSIGN(int64_t a, c.axis(axes[i], rank));
    low[a] = pads[i];
    high[a] = pads[i + axes.size()];
  }
  EMIT(x, c.value(0));
  auto none = [](const Dims &d) {
    return std::all_of(d.begin(), d.end(), [](int64_t v) { return v == 0; });
  };
  if (none(low) && none(high))
    return c.result(x);
  return c.result(c.emit(OpKind::Pad, {x},
                         {{"low", low}, {"high", high}, {"interior", interior}, {"value", value}}));
}

Status convertTrilu(Converter &c) {
  TRY(c.wantTensors(1, 2));
  int64_t k = 0;
  if (c.has(1)) {
    TRY_ASSIGN(std::vector<int64_t> ks, c.known(1, "k"));
    if (ks.size() != 1)
      return c.error("k has " + std::to_string(ks.size()) + " elements, expected 1");
    k = ks[0];
  }
  EMIT(x, c.value(0));
  return c.result(c.emit(OpKind::Trilu, {x}, {{"upper", c.node->i("upper", 1) != 0}, {"k", k}}));
}

// Shape (with start and end) and Size: known from the type alone.
Status convertShape(Converter &c) {
  TRY(c.wantTensors(1, 1));
  const Dims &d = c.dims(0);
  if (c.node->op() == "Size") {
    c.out = {makeInts(DType::I64, {}, {product(d)})};
    return {};
  }
  int64_t rank = c.rank(0);
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(c.node->i("start", 0)), end = clamp(c.node->i("end", rank));
  c.out = {makeIntList(start < end ? Dims(d.begin() + start, d.begin() + end) : Dims())};
  return {};
}

// ---- sequences: lists at plan time, nothing at run time ---------------------------------------------

Status convertSplitToSequence(Converter &c) {
  TRY(c.wantTensors(1, 2));
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", 0), c.rank(0)));
  int64_t extent = c.dims(0)[axis];
  std::vector<int64_t> sizes;
  bool squeeze = false;
  if (!c.has(1)) {
    squeeze = c.node->i("keepdims", 1) == 0;
    if (extent > (1 << 16))
      return c.error("would make " + std::to_string(extent) + " parts");
    sizes.assign(static_cast<size_t>(extent), 1);
  } else {
    TRY_ASSIGN(sizes, c.known(1, "split"));
    if (c.rank(1) != 0) {
      TRY_ASSIGN(sizes, splitSizes(*c.node, extent, 1, sizes));
    } else {
      int64_t chunk = sizes[0];
      if (chunk < 1 || extent / chunk > (1 << 16))
        return c.error("split " + std::to_string(chunk) + " does not fit extent " +
                       std::to_string(extent));
      sizes.clear();
      for (int64_t left = extent; left > 0; left -= chunk)
        sizes.push_back(std::min(chunk, left));
    }
  }
  EMIT(x, c.value(0));
  c.name = c.node->module.empty() ? c.name : c.node->module + ".split";
  auto list = std::make_shared<std::vector<OnnxVal>>();
  TRY_ASSIGN(*list, split(c, x, axis, sizes));
  if (squeeze) {
    Dims dims = c.dims(0);
    dims.erase(dims.begin() + axis);
    for (OnnxVal &v : *list) {
      TRY_ASSIGN(v.value, c.reshape(v.value, dims));
    }
  }
  OnnxVal out;
  out.sequence = list;
  c.out = {out};
  return {};
}

Status convertSequenceConstruct(Converter &c) {
  TRY(c.wantTensors(1, 1 << 16));
  OnnxVal out;
  out.sequence = std::make_shared<std::vector<OnnxVal>>(c.in);
  c.out = {out};
  return {};
}

Status convertSequenceAt(Converter &c) {
  if (c.in.size() != 2 || !c.in[0].sequence || !c.in[1])
    return c.error("expected a sequence and a position");
  TRY_ASSIGN(std::vector<int64_t> at, c.known(1, "position"));
  int64_t n = static_cast<int64_t>(c.in[0].sequence->size());
  if (at.size() != 1 || at[0] < -n || at[0] >= n)
    return c.error("position is outside the sequence of " + std::to_string(n));
  c.out = {(*c.in[0].sequence)[at[0] < 0 ? at[0] + n : at[0]]};
  return {};
}

} // namespace ds
