// SPDX-License-Identifier: Apache-2.0
//
// Root-mean-square normalisation over axes [axis, rank): a block per row. The gradient of the scale is a sum over rows, which
// each column's threads add in one order.
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Pack.cuh"

namespace ds::cuda {

namespace {

// With `other` it is x + other that is normalised, rounded, and kept in `to`.
template <typename T, int kThreads>
__global__ void rmsNormKernel(T *y, Wide<T> *rstd, const T *x, const T *other, T *to,
                              const T *scale, double eps, int64_t rows, int64_t n) {
  using A = Wide<T>;
  const bool wide =
      isPacked(y) && isPacked(x) && isPacked(other) && isPacked(to) && isPacked(scale);
  const Share share = shareOf<T>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *from = (other ? to : x) + r * n;
    if (other) // each thread reads on what it wrote itself
      mapRows(
          to + r * n, share, wide, [](int64_t, auto a, auto b) { return a + b; }, x + r * n,
          other + r * n);
    A squares = 0;
    readRows(
        share, wide, [&](int64_t, A v) { squares += v * v; }, from);
    A s = A(1) / static_cast<A>(sqrt(overBlock<Sum, kThreads>(squares) / static_cast<A>(n) +
                                     static_cast<A>(eps)));
    mapRows(
        y + r * n, share, wide, [&](int64_t, A v, A w) { return v * s * w; }, from, scale);
    if (threadIdx.x == 0)
      rstd[r] = s;
  }
}

// With h = x * rstd and g = dy * scale: dx = rstd * (g - h * mean(g * h)).
template <typename T, int kThreads>
__global__ void rmsNormGradKernel(T *dx, const T *dy, const T *x, const T *scale,
                                  const Wide<T> *rstd, const T *other, int64_t rows, int64_t n) {
  using A = Wide<T>;
  const bool wide =
      isPacked(dx) && isPacked(dy) && isPacked(x) && isPacked(scale) && isPacked(other);
  const Share share = shareOf<T>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    A s = rstd[r], dot = 0;
    readRows(
        share, wide, [&](int64_t, A d, A v, A w) { dot += d * w * (v * s); }, dy + r * n, x + r * n,
        scale);
    dot = overBlock<Sum, kThreads>(dot) / static_cast<A>(n);
    auto slope = [&](int64_t, A d, A v, A w) -> A { return s * (d * w - v * s * dot); };
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
    rmsNormScaleKernel(T *dscale, const T *dy, const T *x, const Wide<T> *rstd, int64_t rows,
                       int64_t n) {
  sumColumns<1>(
      rows, n,
      [&](double(&sums)[1], int64_t r, int64_t i) {
        sums[0] += static_cast<Wide<T>>(value(dy[r * n + i])) * (value(x[r * n + i]) * rstd[r]);
      },
      [&](int, int64_t i, double sum) { dscale[i] = rounded<T>(static_cast<Wide<T>>(sum)); });
}

} // namespace

// (x, scale) -> y, rstd; with an addition (a, b, scale) -> sum, y, rstd.
static const char *forward(const DsLaunch &l, int adds) {
  NormRows s;
  if (const char *message = normRowsOf(l, l.ins[0], s))
    return message;
  if (s.rows == 0 || s.n == 0)
    return nullptr;
  return Floats::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchRows<T>(l, s, rmsNormKernel<T, kRowBlock>, rmsNormKernel<T, kBlock>,
                         elem::dataOf<T>(l.outs[adds]), elem::dataOf<Wide<T>>(l.outs[1 + adds]),
                         elem::dataOf<T>(l.ins[0]), adds ? elem::dataOf<T>(l.ins[1]) : nullptr,
                         adds ? elem::dataOf<T>(l.outs[0]) : nullptr,
                         elem::dataOf<T>(l.ins[1 + adds]), attr(l, "eps").f);
  });
}

const char *rmsNorm(const DsLaunch *l, void *) { return forward(*l, 0); }
const char *addRmsNorm(const DsLaunch *l, void *) { return forward(*l, 1); }

// (dy, x, scale, rstd[, other]) -> dx, dscale.
const char *rmsNormGrad(const DsLaunch *l, void *) {
  NormRows s;
  if (const char *message = normRowsOf(*l, l->ins[1], s))
    return message;
  if (s.n == 0)
    return nullptr;
  return Floats::dispatch(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T *dy = elem::dataOf<T>(l->ins[0]), *x = elem::dataOf<T>(l->ins[1]);
    const auto *rstd = elem::dataOf<Wide<T>>(l->ins[3]);
    // First what needs all of dy and x: dx may take the place of one of them.
    if (const char *message =
            launch(rmsNormScaleKernel<T>, gridOfColumns(s.n), dim3(kColumnBlock), 0, streamOf(*l),
                   elem::dataOf<T>(l->outs[1]), dy, x, rstd, s.rows, s.n))
      return message;
    if (s.rows == 0)
      return static_cast<const char *>(nullptr);
    return launchRows<T>(*l, s, rmsNormGradKernel<T, kRowBlock>, rmsNormGradKernel<T, kBlock>,
                         elem::dataOf<T>(l->outs[0]), dy, x, elem::dataOf<T>(l->ins[2]), rstd,
                         l->numIns > 4 ? elem::dataOf<T>(l->ins[4]) : nullptr);
  });
}

} // namespace ds::cuda
