// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move elements, by size only: what a crop, a reversal or a transposition needs is a start and strides.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

// out[index] = x[index] over s, from byte-sized element offsets on.
static const char *copyStrided(const DsLaunch &l, const DsTensor &out, int64_t to,
                               const DsTensor &x, int64_t from, const Strided<2> &s) {
  return elem::dispatchSize(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return mapInto(l, SameFn(), s, elem::dataOf<T>(out) + to,
                   static_cast<const T *>(elem::dataOf<T>(x) + from));
  });
}

// copy, broadcast
const char *copy(const DsLaunch *l, void *) {
  return copyStrided(*l, l->outs[0], 0, l->ins[0], 0, stridedOf(l->outs[0], l->ins[0]));
}

const char *transpose(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const int64_t *perm = attr(*l, "perm").list;
  Strided<2> s;
  for (int i = 0; i < out.rank; ++i)
    s.add(out.dims[i], {out.strides[i], x.strides[perm[i]]});
  return copyStrided(*l, out, 0, x, 0, s);
}

const char *slice(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const int64_t *starts = attr(*l, "starts").list, *steps = attr(*l, "strides").list;
  Strided<2> s;
  int64_t first = 0;
  for (int i = 0; i < out.rank; ++i) {
    s.add(out.dims[i], {out.strides[i], x.strides[i] * steps[i]});
    first += starts[i] * x.strides[i];
  }
  return copyStrided(*l, out, 0, x, first, s);
}

const char *reverse(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  const DsAttr &axes = attr(*l, "axes");
  Strided<2> s;
  int64_t first = 0;
  for (int i = 0; i < out.rank; ++i) {
    bool turned = std::find(axes.list, axes.list + axes.count, i) != axes.list + axes.count;
    s.add(out.dims[i], {out.strides[i], turned ? -x.strides[i] : x.strides[i]});
    if (turned && x.dims[i] > 0)
      first += (x.dims[i] - 1) * x.strides[i];
  }
  return copyStrided(*l, out, 0, x, first, s);
}

const char *pad(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  if (const char *message = fill(l, nullptr))
    return message;
  const int64_t *low = attr(*l, "low").list, *interior = attr(*l, "interior").list;
  // Element i of an axis goes to low + i * step; the part that falls inside is [first, end).
  Strided<2> s;
  int64_t from = 0, to = 0;
  for (int i = 0; i < out.rank; ++i) {
    int64_t step = interior[i] + 1;
    int64_t first = low[i] < 0 ? (-low[i] + step - 1) / step : 0;
    int64_t end = low[i] < out.dims[i] ? (out.dims[i] - low[i] + step - 1) / step : 0;
    end = std::min(end, x.dims[i]);
    if (first >= end)
      return nullptr;
    s.add(end - first, {out.strides[i] * step, x.strides[i]});
    from += first * x.strides[i];
    to += (low[i] + first * step) * out.strides[i];
  }
  return copyStrided(*l, out, to, x, from, s);
}

const char *concat(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  int64_t axis = attr(*l, "axis").i, to = 0;
  axis += axis < 0 ? out.rank : 0;
  for (int32_t k = 0; k < l->numIns; ++k) {
    const DsTensor &x = l->ins[k];
    Strided<2> s;
    for (int i = 0; i < out.rank; ++i)
      s.add(x.dims[i], {out.strides[i], x.strides[i]});
    if (const char *message = copyStrided(*l, out, to, x, 0, s))
      return message;
    to += x.dims[axis] * out.strides[axis];
  }
  return nullptr;
}

template <typename T> struct TriluBody {
  T *out;
  const T *x;
  int64_t k;
  bool upper;
  __device__ void operator()(const int64_t (&at)[4]) const { // out, x, row, column
    int64_t d = at[3] - at[2];
    out[at[0]] = (upper ? d >= k : d <= k) ? x[at[1]] : T(0);
  }
};
const char *trilu(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  Strided<4> s;
  for (int i = 0; i < out.rank; ++i)
    s.add(out.dims[i], {out.strides[i], x.strides[i], i == out.rank - 2, i == out.rank - 1});
  return elem::dispatchSize(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(
        *l,
        TriluBody<T>{elem::dataOf<T>(out), elem::dataOf<T>(x), attr(*l, "k").i, flag(*l, "upper")},
        s);
  });
}

} // namespace ds::cuda
