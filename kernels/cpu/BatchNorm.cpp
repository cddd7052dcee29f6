// SPDX-License-Identifier: Apache-2.0
//
// batch_norm and its gradient: channels are split over threads, and a channel's rows (one per batch element) are
// added in order.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/BatchNorm.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

/// One channel: `rows` rows of n elements, `stride` apart.
void channelNorm(const float *x, float scale, float bias, double eps, float *y, float *mean,
                 float *var, int64_t rows, int64_t stride, int64_t n) {
  const double inv = 1.0 / static_cast<double>(std::max<int64_t>(1, rows * n));
  double mu = 0, squares = 0;
  for (int64_t r = 0; r < rows; ++r)
    mu += rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR { return loadAt(x + r * stride, i, m, 0); });
  mu *= inv;
  const float center = static_cast<float>(mu);
  const VF vc = set(center);
  for (int64_t r = 0; r < rows; ++r)
    squares += rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
      VF d = hn::Sub(loadAt(x + r * stride, i, m, center), vc);
      return hn::Mul(d, d);
    });
  const double shift = mu - static_cast<double>(center); // the rounded mean is not quite the mean
  const double spread = std::max(0.0, squares * inv - shift * shift);
  const VF factor = set(static_cast<float>(scale / std::sqrt(spread + eps))), vb = set(bias);
  const int64_t N = lanes();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; i += N) {
      const int64_t m = n - i < N ? n - i : N;
      VF d = hn::Sub(loadAt(x + r * stride, i, m, 0), vc);
      storeAt(hn::MulAdd(d, factor, vb), y + r * stride, i, m);
    }
  *mean = center;
  *var = static_cast<float>(spread);
}

void channelGrad(const float *dy, const float *x, float scale, float mean, float var, double eps,
                 float *dx, float *dscale, float *dbias, int64_t rows, int64_t stride, int64_t n) {
  const VF vm = set(mean);
  double sum = 0, dot = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double first, second;
    rowSum2(
        n,
        [&](int64_t i, int64_t m, VF &g, VF &gd) HWY_ATTR {
          g = loadAt(dy + r * stride, i, m, 0);
          gd = hn::Mul(g, hn::Sub(loadAt(x + r * stride, i, m, mean), vm));
        },
        first, second);
    sum += first;
    dot += second;
  }
  const double inv = 1.0 / static_cast<double>(std::max<int64_t>(1, rows * n));
  const double rstd = 1.0 / std::sqrt(static_cast<double>(var) + eps);
  const VF factor = set(static_cast<float>(scale * rstd)), a = set(static_cast<float>(sum * inv)),
           b = set(static_cast<float>(dot * inv * rstd * rstd));
  const int64_t N = lanes();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; i += N) {
      const int64_t m = n - i < N ? n - i : N;
      VF d = hn::Sub(loadAt(x + r * stride, i, m, 0), vm);
      VF g = hn::Sub(loadAt(dy + r * stride, i, m, 0), a);
      storeAt(hn::Mul(factor, hn::NegMulAdd(d, b, g)), dx + r * stride, i, m);
    }
  *dscale = static_cast<float>(dot * rstd);
  *dbias = static_cast<float>(sum);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(channelNorm);
HWY_EXPORT(channelGrad);

struct Channels {
  int64_t rows = 0, count = 0, n = 0;

  explicit Channels(const DsTensor &x)
      : rows(x.dims[0]), count(x.dims[1]), n(product(x.dims, 2, x.rank)) {}
  int64_t stride() const { return count * n; }
  template <class F> void forEach(const DsLaunch &l, const F &f) const {
    parallelFor(l.threads, count, rows * count * n, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        f(c);
    });
  }
};

class BatchNorm {
public:
  const char *prepare(const DsLaunch &l) { return requireF32(l); }
  const char *run(const DsLaunch &l) {
    auto channel = HWY_DYNAMIC_DISPATCH(channelNorm);
    const Channels s(l.ins[0]);
    const double eps = attr(l, "eps").f;
    s.forEach(l, [&](int64_t c) {
      channel(f32(l.ins[0]) + c * s.n, f32(l.ins[1])[c], f32(l.ins[2])[c], eps,
              f32(l.outs[0]) + c * s.n, f32(l.outs[1]) + c, f32(l.outs[2]) + c, s.rows, s.stride(),
              s.n);
    });
    return nullptr;
  }
};

class BatchNormGrad {
public:
  const char *prepare(const DsLaunch &l) { return requireF32(l); }
  const char *run(const DsLaunch &l) {
    auto channel = HWY_DYNAMIC_DISPATCH(channelGrad);
    const Channels s(l.ins[1]);
    const double eps = attr(l, "eps").f;
    s.forEach(l, [&](int64_t c) {
      channel(f32(l.ins[0]) + c * s.n, f32(l.ins[1]) + c * s.n, f32(l.ins[2])[c], f32(l.ins[3])[c],
              f32(l.ins[4])[c], eps, f32(l.outs[0]) + c * s.n, f32(l.outs[1]) + c,
              f32(l.outs[2]) + c, s.rows, s.stride(), s.n);
    });
    return nullptr;
  }
};

const KernelFns batchNorm = fnsOf<Widen<Dense<BatchNorm>>>();
const KernelFns batchNormGrad = fnsOf<Widen<Dense<BatchNormGrad>>>();

} // namespace ds::cpu
#endif
