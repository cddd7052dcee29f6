// SPDX-License-Identifier: Apache-2.0
//
// Shape arithmetic of ONNX operators, shared by evaluators and converters: reshape, squeeze, slices, splits.
#include "frontend/OnnxEval.h"
#include "ir/SourceText.h"

#include <algorithm>

namespace ds {

Status evalError(const OnnxNode &n, std::string text) {
  return Status::error(n.op() + ": " + std::move(text));
}

bool fitsKnown(const Dims &dims) {
  std::optional<int64_t> n = checkedProduct(dims);
  return n && *n <= kMaxKnown;
}

Status evalDims(const OnnxNode &n, const Dims &dims) {
  if (dims.size() > kMaxRank || !checkedProduct(dims, 8))
    return evalError(n, "shape " + dimsText(dims) + " is negative or too large");
  return {};
}

StatusOr<int64_t> evalAxis(const OnnxNode &n, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return evalError(n,
                     "axis " + std::to_string(axis) + " is outside rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

StatusOr<std::optional<std::vector<int64_t>>> evalAxes(const OnnxNode &n, const KnownList &in,
                                                       size_t slot, int64_t rank) {
  std::optional<std::vector<int64_t>> axes = n.ints("axes");
  if (!axes && slot < in.size() && in[slot])
    axes = in[slot]->list();
  if (!axes)
    return axes;
  for (int64_t &a : *axes) {
    TRY_ASSIGN(a, evalAxis(n, a, rank));
  }
  std::sort(axes->begin(), axes->end());
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end())
    return evalError(n, "axes " + dimsText(*axes) + " name an axis twice");
  return axes;
}

StatusOr<Dims> reshapeDims(const OnnxNode &n, const Dims &from, const std::vector<int64_t> &to) {
  bool allowZero = n.i("allowzero", 0) != 0;
  Dims dims = to;
  int64_t open = -1, known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allowZero) {
      if (i >= from.size())
        return evalError(n, "shape " + dimsText(to) + " copies axis " + std::to_string(i) +
                                ", which the input " + dimsText(from) + " does not have");
      dims[i] = from[i];
    }
    if (dims[i] == -1) {
      if (open >= 0)
        return evalError(n, "shape " + dimsText(to) + " has more than one -1");
      open = static_cast<int64_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return evalError(n, "shape " + dimsText(to) + " is negative or too large");
    }
  }
  int64_t total = product(from);
  if (open >= 0) {
    if (known == 0 || total % known != 0)
      return evalError(n, dimsText(from) + " has " + std::to_string(total) +
                              " elements, which do not fit shape " + dimsText(to));
    dims[open] = total / known;
  } else if (known != total) {
    return evalError(n, dimsText(from) + " has " + std::to_string(total) + " elements, shape " +
                            dimsText(to) + " has " + std::to_string(known));
  }
  TRY(evalDims(n, dims));
  return dims;
}

StatusOr<Dims> squeezeDims(const OnnxNode &n, const Dims &from,
                           const std::optional<std::vector<int64_t>> &axes) {
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    bool drop = axes ? std::binary_search(axes->begin(), axes->end(), static_cast<int64_t>(i))
                     : from[i] == 1;
    if (drop && from[i] != 1)
      return evalError(n, "axis " + std::to_string(i) + " has extent " + std::to_string(from[i]) +
                              ", expected 1");
    if (!drop)
      dims.push_back(from[i]);
  }
  return dims;
}

StatusOr<Dims> unsqueezeDims(const OnnxNode &n, const Dims &from, std::vector<int64_t> axes) {
  int64_t rank = static_cast<int64_t>(from.size() + axes.size());
  if (rank > static_cast<int64_t>(kMaxRank))
    return evalError(n, "the result has rank " + std::to_string(rank) + ", too large");
  for (int64_t &a : axes) {
    TRY_ASSIGN(a, evalAxis(n, a, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return evalError(n, "axes " + dimsText(axes) + " name an axis twice");
  Dims dims;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(std::binary_search(axes.begin(), axes.end(), i) ? 1 : from[next++]);
  return dims;
}

StatusOr<std::vector<SliceRange>> sliceRanges(const OnnxNode &n, const Dims &dims,
                                              const std::vector<int64_t> &starts,
                                              const std::vector<int64_t> &ends,
                                              const std::optional<std::vector<int64_t>> &axes,
                                              const std::optional<std::vector<int64_t>> &steps) {
  int64_t rank = static_cast<int64_t>(dims.size());
  if (ends.size() != starts.size() || (axes && axes->size() != starts.size()) ||
      (steps && steps->size() != starts.size()) || starts.size() > dims.size())
    return evalError(n, "starts, ends, axes and steps differ in length, or exceed rank " +
                            std::to_string(rank));
  std::vector<SliceRange> out;
  for (int64_t d : dims)
    out.push_back({0, d, 1});
  std::vector<bool> seen(dims.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    TRY_ASSIGN(int64_t a, evalAxis(n, axes ? (*axes)[i] : static_cast<int64_t>(i), rank));
    if (seen[a])
      return evalError(n, "axis " + std::to_string(a) + " occurs twice");
    seen[a] = true;
    int64_t d = dims[a], step = steps ? (*steps)[i] : 1;
    if (step == 0)
      return evalError(n, "step 0 on axis " + std::to_string(a));
    auto clamp = [&](int64_t v, int64_t lo, int64_t hi) {
      v = v < 0 ? (v < -d ? -1 : v + d) : v; // far below: before the first
      return std::clamp(v, lo, hi);
    };
    int64_t start = starts[i], end = ends[i], count = 0;
    if (step > 0) {
      start = start < -d ? 0 : clamp(start, 0, d);
      end = end < -d ? 0 : clamp(end, 0, d);
      count = end > start ? (end - start - 1) / step + 1 : 0;
    } else {
      start = clamp(start, -1, d - 1);
      end = clamp(end, -1, d - 1);
      count = start > end ? (start - end - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1 : 0;
    }
    out[a] = {count ? start : 0, count, count > 1 ? step : 1};
  }
  return out;
}

StatusOr<std::vector<int64_t>> splitSizes(const OnnxNode &n, int64_t extent, int64_t outputs,
                                          const std::optional<std::vector<int64_t>> &split) {
  if (split) {
    int64_t sum = 0;
    for (int64_t s : *split)
      if (s < 0 || __builtin_add_overflow(sum, s, &sum))
        return evalError(n, "split " + dimsText(*split) + " is negative or too large");
    if (sum != extent || static_cast<int64_t>(split->size()) < outputs)
      return evalError(n, "split " + dimsText(*split) + " does not divide extent " +
                              std::to_string(extent) + " into " + std::to_string(outputs) +
                              " outputs");
    return *split;
  }
  int64_t parts = n.i("num_outputs", outputs);
  if (parts < 1 || parts < outputs || parts > extent + 1 || parts > 65536)
    return evalError(n, "cannot split extent " + std::to_string(extent) + " into " +
                            std::to_string(parts) + " parts");
  if (n.opset < 18 && extent % parts != 0)
    return evalError(n, "extent " + std::to_string(extent) + " is not a multiple of " +
                            std::to_string(parts));
  int64_t chunk = (extent + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0, left = extent; i < parts; ++i, left -= sizes.back())
    sizes.push_back(std::min(chunk, left));
  return sizes;
}

} // namespace ds
