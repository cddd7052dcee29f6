// SPDX-License-Identifier: Apache-2.0
//
// Pooling and its gradients: planes are split over threads; a gradient scatters into its own plane, in the order of
// windows.
#include "kernels/PoolLoops.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"

namespace ds::cpu {

template <class P> class Pool {
public:
  const char *prepare(const DsLaunch &l) { return requireF32(l); }
  const char *run(const DsLaunch &l) {
    const PoolShape s(l, P::isGrad, P::isMean);
    int64_t touched = 0;
    for (const DsTensor *t : {&l.ins[0], &l.outs[0]})
      touched += elems(*t);
    parallelFor(l.threads, s.planes(), touched, [&](int64_t begin, int64_t end) {
      forPlanes(s, begin, end, [&](int64_t n, int64_t c) { P::plane(s, l, n, c); });
    });
    return nullptr;
  }
};

static void clear(const PoolShape &s, const Image<float> &dx, int64_t n, int64_t c) {
  s.windows.forIn([&](const Place &i) { dx.at(n, c, i) = 0; });
}

struct MaxForward {
  static constexpr bool isGrad = false, isMean = false;
  static void plane(const PoolShape &s, const DsLaunch &l, int64_t n, int64_t c) {
    maxPlane(s, Image<const float>(l.ins[0]), Image<float>(l.outs[0]), n, c);
  }
};

struct AvgForward {
  static constexpr bool isGrad = false, isMean = true;
  static void plane(const PoolShape &s, const DsLaunch &l, int64_t n, int64_t c) {
    avgPlane(s, Image<const float>(l.ins[0]), Image<float>(l.outs[0]), n, c);
  }
};

struct MaxBackward {
  static constexpr bool isGrad = true, isMean = false;
  static void plane(const PoolShape &s, const DsLaunch &l, int64_t n, int64_t c) {
    const Image<const float> dy(l.ins[0]), x(l.ins[1]);
    const Image<float> dx(l.outs[0]);
    clear(s, dx, n, c);
    s.windows.forOut([&](const Place &o) {
      const Largest<float> max = maxOf(s.windows, x, n, c, o);
      if (max.place[0] >= 0)
        dx.at(n, c, max.place) += dy.at(n, c, o);
    });
  }
};

struct AvgBackward {
  static constexpr bool isGrad = true, isMean = true;
  static void plane(const PoolShape &s, const DsLaunch &l, int64_t n, int64_t c) {
    const Image<const float> dy(l.ins[0]);
    const Image<float> dx(l.outs[0]);
    clear(s, dx, n, c);
    s.windows.forOut([&](const Place &o) {
      const auto share = static_cast<float>(dy.at(n, c, o) / s.count(o));
      s.windows.forTaps(o, [&](const Place &i, const Place &) { dx.at(n, c, i) += share; });
    });
  }
};

const KernelFns maxPool = fnsOf<Widen<Pool<MaxForward>>>();
const KernelFns maxPoolGrad = fnsOf<Widen<Pool<MaxBackward>>>();
const KernelFns avgPool = fnsOf<Widen<Pool<AvgForward>>>();
const KernelFns avgPoolGrad = fnsOf<Widen<Pool<AvgBackward>>>();

} // namespace ds::cpu
