// SPDX-License-Identifier: Apache-2.0
//
// Reductions and softmax. Floating-point sums are kept in double and added in row-major order.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

// Splits x's axes: `kept` walks result and x together, `reduced` walks x.
static void splitAxes(const DsLaunch &l, Loop<2> &kept, Loop<1> &reduced) {
  const DsTensor &x = l.ins[0], &out = l.outs[0];
  const DsAttr &axes = attr(l, "axes");
  bool keepDims = flag(l, "keepdims");
  int64_t next = 0;
  int outAxis = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (next < axes.count && axes.list[next] == i) {
      ++next;
      reduced.add(x.dims[i], {x.strides[i]});
      outAxis += keepDims;
    } else {
      kept.add(x.dims[i], {out.strides[outAxis++], x.strides[i]});
    }
  }
}

// result = f(f(start, x0), x1)... with A the type of the running value.
template <typename A, typename F> static auto fold(const DsLaunch &l, F f) {
  return [&l, f](auto tag, A start) -> const char * {
    using T = typename decltype(tag)::Type;
    Loop<2> kept;
    Loop<1> reduced;
    splitAxes(l, kept, reduced);
    T *out = dataOf<T>(l.outs[0]);
    const T *x = dataOf<T>(l.ins[0]);
    walk(kept, [&](int64_t o, int64_t base) {
      A sum = start;
      walk(reduced, [&](int64_t i) { sum = f(sum, static_cast<A>(load(x[base + i]))); });
      out[o] = store<T>(sum);
    });
    return nullptr;
  };
}

const char *refReduceSum(const DsLaunch *l, void *) {
  return dispatchNumber(l->ins[0].dtype, [&](auto tag) {
    using A = std::conditional_t<kIsFloat<typename decltype(tag)::Type>, double, uint64_t>;
    return fold<A>(*l, [](A a, A b) { return a + b; })(tag, A(0));
  });
}

// The largest or smallest value; NaN wins. Without elements: the other end of the type.
template <bool kMax> static const char *reduceExtreme(const DsLaunch &l) {
  return dispatchNumber(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = Compute<T>;
    using Limits = std::numeric_limits<A>;
    A start = Limits::has_infinity ? (kMax ? -Limits::infinity() : Limits::infinity())
                                   : (kMax ? Limits::lowest() : Limits::max());
    return fold<A>(l, [](A a, A b) {
      if (a != a || b != b)
        return a != a ? a : b;
      return (kMax ? a < b : b < a) ? b : a;
    })(tag, start);
  });
}

const char *refReduceMax(const DsLaunch *l, void *) { return reduceExtreme<true>(*l); }
const char *refReduceMin(const DsLaunch *l, void *) { return reduceExtreme<false>(*l); }

// ---- softmax ----------------------------------------------------------------------------------------

// f(offset in out, offset in ins[0], offset in ins[1]) for every line along the axis.
template <typename F> static void forEachLine(const DsLaunch &l, int64_t axis, F f) {
  const DsTensor &out = l.outs[0], &a = l.ins[0], &b = l.ins[l.numIns - 1];
  Loop<3> loop;
  for (int i = 0; i < out.rank; ++i)
    if (i != axis)
      loop.add(out.dims[i], {out.strides[i], a.strides[i], b.strides[i]});
  walk(loop, f);
}

template <bool kLog> static const char *softmax(const DsLaunch &l) {
  const DsTensor &x = l.ins[0], &y = l.outs[0];
  int64_t axis = axisOf(l, x.rank), n = x.dims[axis], sx = x.strides[axis], sy = y.strides[axis];
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    forEachLine(l, axis, [&](int64_t o, int64_t i, int64_t) {
      const T *from = dataOf<T>(x) + i;
      T *to = dataOf<T>(y) + o;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < n; ++k)
        top = std::fmax(top, load(from[k * sx]));
      for (int64_t k = 0; k < n; ++k)
        sum += std::exp(load(from[k * sx]) - top);
      for (int64_t k = 0; k < n; ++k) {
        double shifted = load(from[k * sx]) - top;
        to[k * sy] = store<T>(kLog ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
    return nullptr;
  });
}

const char *refSoftmax(const DsLaunch *l, void *) { return softmax<false>(*l); }
const char *refLogSoftmax(const DsLaunch *l, void *) { return softmax<true>(*l); }

// (dy, y): y * (dy - sum(dy * y)).
const char *refSoftmaxGrad(const DsLaunch *l, void *) {
  const DsTensor &dy = l->ins[0], &y = l->ins[1], &dx = l->outs[0];
  int64_t axis = axisOf(*l, y.rank), n = y.dims[axis];
  int64_t sg = dy.strides[axis], sy = y.strides[axis], sx = dx.strides[axis];
  return dispatchFloat(y.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    forEachLine(*l, axis, [&](int64_t o, int64_t i, int64_t j) {
      const T *g = dataOf<T>(dy) + i, *p = dataOf<T>(y) + j;
      double dot = 0;
      for (int64_t k = 0; k < n; ++k)
        dot += double(load(g[k * sg])) * load(p[k * sy]);
      for (int64_t k = 0; k < n; ++k)
        dataOf<T>(dx)[o + k * sx] = store<T>(load(p[k * sy]) * (load(g[k * sg]) - dot));
    });
    return nullptr;
  });
}

} // namespace ds::ref
