// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move elements or make them. Moving looks at the element's size only. A crop, a reversal and
// an interior gap are all a start offset and a stride (negative for reverse).
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <cstring>

namespace ds::ref {

// copy, broadcast: out[index] = x[index], with extent-1 axes of x repeated.
const char *refCopy(const DsLaunch *l, void *) {
  return dispatchSize(l->outs[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    copyLoop(loopOf(l->outs[0], l->ins[0]), dataOf<T>(l->outs[0]), dataOf<T>(l->ins[0]));
    return nullptr;
  });
}

const char *refTranspose(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const int64_t *perm = attr(*l, "perm").list;
  Loop<2> loop;
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i], {out.strides[i], x.strides[perm[i]]});
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    copyLoop(loop, dataOf<T>(out), dataOf<T>(x));
    return nullptr;
  });
}

const char *refSlice(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const int64_t *starts = attr(*l, "starts").list, *steps = attr(*l, "strides").list;
  Loop<2> loop;
  int64_t first = 0;
  for (int i = 0; i < out.rank; ++i) {
    loop.add(out.dims[i], {out.strides[i], x.strides[i] * steps[i]});
    first += starts[i] * x.strides[i];
  }
  if (loop.count() == 0)
    return nullptr;
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    copyLoop(loop, dataOf<T>(out), dataOf<T>(x) + first);
    return nullptr;
  });
}

const char *refReverse(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const DsAttr &axes = attr(*l, "axes");
  Loop<2> loop = loopOf(out, x);
  int64_t first = 0;
  for (int64_t i = 0; i < axes.count; ++i) {
    int64_t axis = axes.list[i];
    first += (x.dims[axis] - 1) * x.strides[axis];
    loop.strides[1][axis] = -x.strides[axis];
  }
  if (loop.count() == 0)
    return nullptr;
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    copyLoop(loop, dataOf<T>(out), dataOf<T>(x) + first);
    return nullptr;
  });
}

static Loop<1> loopOf(const DsTensor &out) {
  Loop<1> loop;
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i], {out.strides[i]});
  return loop;
}

template <typename T> static T numberTo(double v) {
  if constexpr (kIsFloat<T> || std::is_same_v<T, Bool>)
    return store<T>(v);
  else
    return truncateTo<T>(v);
}

const char *refFill(const DsLaunch *l, void *) {
  double value = attr(*l, "value").f;
  return dispatchAny(l->outs[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *out = dataOf<T>(l->outs[0]), v = numberTo<T>(value);
    walk(loopOf(l->outs[0]), [&](int64_t o) { out[o] = v; });
    return nullptr;
  });
}

const char *refPad(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  if (const char *error = refFill(l, nullptr))
    return error;
  const int64_t *low = attr(*l, "low").list, *interior = attr(*l, "interior").list;
  // Operand element i of an axis goes to low + i * step; the part that falls inside is [first, end).
  Loop<2> loop;
  int64_t from = 0, to = 0;
  for (int i = 0; i < out.rank; ++i) {
    int64_t step = interior[i] + 1;
    int64_t first = low[i] < 0 ? (-low[i] + step - 1) / step : 0;
    int64_t end = low[i] < out.dims[i] ? (out.dims[i] - low[i] + step - 1) / step : 0;
    end = end < x.dims[i] ? end : x.dims[i];
    if (first >= end)
      return nullptr;
    loop.add(end - first, {out.strides[i] * step, x.strides[i]});
    from += first * x.strides[i];
    to += (low[i] + first * step) * out.strides[i];
  }
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    copyLoop(loop, dataOf<T>(out) + to, dataOf<T>(x) + from);
    return nullptr;
  });
}

const char *refConcat(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  int64_t axis = axisOf(*l, out.rank);
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *to = dataOf<T>(out);
    for (int32_t k = 0; k < l->numIns; ++k) {
      const DsTensor &x = l->ins[k];
      Loop<2> loop;
      for (int i = 0; i < out.rank; ++i)
        loop.add(x.dims[i], {out.strides[i], x.strides[i]});
      copyLoop(loop, to, dataOf<T>(x));
      to += x.dims[axis] * out.strides[axis];
    }
    return nullptr;
  });
}

// ---- gather -----------------------------------------------------------------------------------------

// Calls f(row of x, offset of the gathered block) for every index, in row-major order; refuses one that is out
// of range. `block` is the tensor with the gathered shape, whose axes [axis, axis + rank of indices) it walks.
template <typename F>
static const char *forEachIndex(const DsTensor &indices, const DsTensor &block, int64_t axis,
                                int64_t extent, F f) {
  Loop<2> loop;
  for (int i = 0; i < indices.rank; ++i)
    loop.add(indices.dims[i], {indices.strides[i], block.strides[axis + i]});
  const char *error = nullptr;
  bool wide = indices.dtype == static_cast<uint8_t>(DType::I64);
  walk(loop, [&](int64_t at, int64_t blockAt) {
    int64_t index = wide ? dataOf<int64_t>(indices)[at] : dataOf<int32_t>(indices)[at];
    if (index < -extent || index >= extent) {
      if (!error)
        error = message("index %lld is out of range for extent %lld", static_cast<long long>(index),
                        static_cast<long long>(extent));
      return;
    }
    f(index < 0 ? index + extent : index, blockAt);
  });
  return error;
}

// The axes of x and of the gathered tensor that indices do not touch.
static Loop<2> restOf(const DsTensor &block, const DsTensor &x, int64_t axis, int32_t indexRank) {
  Loop<2> loop;
  for (int i = 0; i < x.rank; ++i)
    if (i != axis)
      loop.add(x.dims[i], {block.strides[i < axis ? i : i - 1 + indexRank], x.strides[i]});
  return loop;
}

const char *refGather(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0], &indices = l->ins[1];
  int64_t axis = axisOf(*l, x.rank);
  Loop<2> rest = restOf(out, x, axis, indices.rank);
  return dispatchSize(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return forEachIndex(indices, out, axis, x.dims[axis], [&](int64_t row, int64_t at) {
      copyLoop(rest, dataOf<T>(out) + at, dataOf<T>(x) + row * x.strides[axis]);
    });
  });
}

// As gather_grad below, row by row: sums in 16 bits would stop growing.
template <typename T> static const char *gatherGradByRow(const DsLaunch &l) {
  const DsTensor &dx = l.outs[0], &dy = l.ins[0], &indices = l.ins[1];
  int64_t axis = axisOf(l, dx.rank);
  Loop<2> rest = restOf(dy, dx, axis, indices.rank);
  const char *error = nullptr;
  for (int64_t row = 0; row < dx.dims[axis] && !error; ++row) {
    bool used = false;
    auto forMatches = [&](auto f) {
      error = forEachIndex(indices, dy, axis, dx.dims[axis], [&](int64_t r, int64_t at) {
        if (r == row)
          f(at);
      });
    };
    forMatches([&](int64_t) { used = true; });
    if (used)
      walk(rest, [&](int64_t i, int64_t o) {
        Compute<T> sum = 0;
        forMatches([&](int64_t at) { sum += load(dataOf<T>(dy)[at + i]); });
        dataOf<T>(dx)[row * dx.strides[axis] + o] = store<T>(sum);
      });
  }
  return error;
}

// (dy, indices): blocks of dy are added in index order.
const char *refGatherGrad(const DsLaunch *l, void *) {
  const DsTensor &dx = l->outs[0], &dy = l->ins[0], &indices = l->ins[1];
  int64_t axis = axisOf(*l, dx.rank);
  Loop<2> rest = restOf(dy, dx, axis, indices.rank);
  return dispatchFloat(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T *to = dataOf<T>(dx);
    walk(loopOf(dx), [&](int64_t o) { to[o] = store<T>(0.0); });
    if constexpr (kIsHalf<T>)
      return gatherGradByRow<T>(*l);
    return forEachIndex(indices, dy, axis, dx.dims[axis], [&](int64_t row, int64_t at) {
      const T *from = dataOf<T>(dy) + at;
      T *sum = to + row * dx.strides[axis];
      walk(rest, [&](int64_t i, int64_t o) { sum[o] = store<T>(load(sum[o]) + load(from[i])); });
    });
  });
}

// ---- trilu, iota --------------------------------------------------------------------------------------

const char *refTrilu(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  bool upper = flag(*l, "upper");
  int64_t k = attr(*l, "k").i;
  int rows = out.rank - 2, columns = out.rank - 1;
  Loop<2> batch;
  for (int i = 0; i < rows; ++i)
    batch.add(out.dims[i], {out.strides[i], x.strides[i]});
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    walk(batch, [&](int64_t to, int64_t from) {
      for (int64_t i = 0; i < out.dims[rows]; ++i)
        for (int64_t j = 0; j < out.dims[columns]; ++j) {
          bool kept = upper ? j - i >= k : j - i <= k;
          dataOf<T>(out)[to + i * out.strides[rows] + j * out.strides[columns]] =
              kept ? dataOf<T>(x)[from + i * x.strides[rows] + j * x.strides[columns]] : T(0);
        }
    });
    return nullptr;
  });
}

const char *refIota(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  int64_t axis = axisOf(*l, out.rank);
  int64_t start = attr(*l, "start").i, step = attr(*l, "step").i;
  Loop<2> loop; // tensor 1 counts along the axis
  for (int i = 0; i < out.rank; ++i)
    loop.add(out.dims[i], {out.strides[i], i == axis ? 1 : 0});
  return dispatchNumber(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *to = dataOf<T>(out);
    walk(loop, [&](int64_t o, int64_t i) { to[o] = store<T>(start + step * i); });
    return nullptr;
  });
}

} // namespace ds::ref
