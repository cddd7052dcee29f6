// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation over axes [axis, rank): a block per row. The gradients of scale and bias are sums over rows, which
// each column's threads add in one order.
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Pack.cuh"

namespace ds::cuda {

namespace {

// With `other` it is x + other that is normalised, rounded, and kept in `to`.
template <typename T, int kThreads>
__global__ void layerNormKernel(T *y, Wide<T> *mean, Wide<T> *rstd, const T *x, const T *other,
                                T *to, const T *scale, const T *bias, double eps, int64_t rows,
                                int64_t n) {
  using A = Wide<T>;
  const bool wide = isPacked(y) && isPacked(x) && isPacked(other) && isPacked(to) &&
                    isPacked(scale) && isPacked(bias);
  const Share share = shareOf<T>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *from = (other ? to : x) + r * n;
    if (other) // each thread reads on what it wrote itself
      mapRows(
          to + r * n, share, wide, [](int64_t, auto a, auto b) { return a + b; }, x + r * n,
          other + r * n);
    A sum = 0;
    readRows(
        share, wide, [&](int64_t, A v) { sum += v; }, from);
    A m = overBlock<Sum, kThreads>(sum) / static_cast<A>(n), squares = 0;
    readRows(
        share, wide, [&](int64_t, A v) { squares += (v - m) * (v - m); }, from);
    A s = A(1) / static_cast<A>(sqrt(overBlock<Sum, kThreads>(squares) / static_cast<A>(n) +
                                     static_cast<A>(eps)));
    if (bias)
      mapRows(
          y + r * n, share, wide, [&](int64_t, A v, A w, A b) { return (v - m) * s * w + b; }, from,
          scale, bias);
    else
      mapRows(
          y + r * n, share, wide, [&](int64_t, A v, A w) { return (v - m) * s * w; }, from, scale);
    if (threadIdx.x == 0) {
      mean[r] = m;
      rstd[r] = s;
    }
  }
}

// With h = (x - mean) * rstd and g = dy * scale: dx = rstd * (g - mean(g) - h * mean(g * h)).
template <typename T, int kThreads>
__global__ void layerNormGradKernel(T *dx, const T *dy, const T *x, const T *scale,
                                    const Wide<T> *mean, const Wide<T> *rstd, const T *other,
                                    int64_t rows, int64_t n) {
  using A = Wide<T>;
  const bool wide =
      isPacked(dx) && isPacked(dy) && isPacked(x) && isPacked(scale) && isPacked(other);
  const Share share = shareOf<T>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    A m = mean[r], s = rstd[r], sum = 0, dot = 0;
    readRows(
        share, wide,
        [&](int64_t, A d, A v, A w) {
          A g = d * w;
          sum += g;
          dot += g * ((v - m) * s);
        },
        dy + r * n, x + r * n, scale);
    sum = overBlock<Sum, kThreads>(sum) / static_cast<A>(n);
    dot = overBlock<Sum, kThreads>(dot) / static_cast<A>(n);
    auto slope = [&](int64_t, A d, A v, A w) -> A { return s * (d * w - sum - (v - m) * s * dot); };
    if (other)
      mapRows(
          dx + r * n, share, wide,
          [&](int64_t i, A d, A v, A w, A o) { return value(rounded<T>(slope(i, d, v, w))) + o; },
          dy + r * n, x + r * n, scale, other + r * n);
    else
      mapRows(dx + r * n, share, wide, slope, dy + r * n, x + r * n, scale);
  }
}

template <typename T>
__global__ void __launch_bounds__(kColumnBlock)
    layerNormParamsKernel(T *dscale, T *dbias, const T *dy, const T *x, const Wide<T> *mean,
                          const Wide<T> *rstd, int64_t rows, int64_t n) {
  sumColumns<2>(
      rows, n,
      [&](double(&sums)[2], int64_t r, int64_t i) {
        Wide<T> g = value(dy[r * n + i]);
        sums[0] += g * ((value(x[r * n + i]) - mean[r]) * rstd[r]);
        sums[1] += g;
      },
      [&](int which, int64_t i, double sum) {
        (which ? dbias : dscale)[i] = rounded<T>(static_cast<Wide<T>>(sum));
      });
}

} // namespace

// (x, scale[, bias]) -> y, mean, rstd; with an addition (a, b, scale[, bias]) -> sum, y, mean, rstd.
static const char *forward(const DsLaunch &l, int adds) {
  NormRows s;
  if (const char *message = normRowsOf(l, l.ins[0], s))
    return message;
  if (s.rows == 0 || s.n == 0)
    return nullptr;
  const DsTensor *in = l.ins + adds, *out = l.outs + adds;
  return Floats::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchRows<T>(l, s, layerNormKernel<T, kRowBlock>, layerNormKernel<T, kBlock>,
                         elem::dataOf<T>(out[0]), elem::dataOf<Wide<T>>(out[1]),
                         elem::dataOf<Wide<T>>(out[2]), elem::dataOf<T>(l.ins[0]),
                         adds ? elem::dataOf<T>(l.ins[1]) : nullptr,
                         adds ? elem::dataOf<T>(l.outs[0]) : nullptr, elem::dataOf<T>(in[1]),
                         l.numIns == 3 + adds ? elem::dataOf<T>(in[2]) : nullptr, attr(l, "eps").f);
  });
}

const char *layerNorm(const DsLaunch *l, void *) { return forward(*l, 0); }
const char *addLayerNorm(const DsLaunch *l, void *) { return forward(*l, 1); }

// (dy, x, scale, mean, rstd[, other]) -> dx, dscale, dbias.
const char *layerNormGrad(const DsLaunch *l, void *) {
  NormRows s;
  if (const char *message = normRowsOf(*l, l->ins[1], s))
    return message;
  if (s.n == 0)
    return nullptr;
  return Floats::dispatch(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T *dy = elem::dataOf<T>(l->ins[0]), *x = elem::dataOf<T>(l->ins[1]);
    const auto *mean = elem::dataOf<Wide<T>>(l->ins[3]), *rstd = elem::dataOf<Wide<T>>(l->ins[4]);
    // First what needs all of dy and x: dx may take the place of one of them.
    if (const char *message =
            launch(layerNormParamsKernel<T>, gridOfColumns(s.n), dim3(kColumnBlock), 0,
                   streamOf(*l), elem::dataOf<T>(l->outs[1]), elem::dataOf<T>(l->outs[2]), dy, x,
                   mean, rstd, s.rows, s.n))
      return message;
    if (s.rows == 0)
      return static_cast<const char *>(nullptr);
    return launchRows<T>(*l, s, layerNormGradKernel<T, kRowBlock>, layerNormGradKernel<T, kBlock>,
                         elem::dataOf<T>(l->outs[0]), dy, x, elem::dataOf<T>(l->ins[2]), mean, rstd,
                         l->numIns > 5 ? elem::dataOf<T>(l->ins[5]) : nullptr);
  });
}

} // namespace ds::cuda
