// SPDX-License-Identifier: Apache-2.0
//
// Pooling and its gradients: a thread per element of the result. The gradient of a maximum looks for the windows whose first
// largest element it is, so that nothing is added out of order.
#include "kernels/PoolLoops.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Window.cuh"

namespace ds::cuda {

namespace {

struct PoolSizes {
  Box result;
  Windows windows;
  bool countsPadding;

  /// Elements that the mean of window o counts, at least 1.
  __device__ double count(const Place &o) const {
    double n = 1;
    for (int a = 0; a < 3; ++a) {
      const WindowAxis &w = windows.axis[a];
      n *= static_cast<double>(countsPadding ? w.window : w.lastTap(o[a]) - w.firstTap(o[a]));
    }
    return n > 1.0 ? n : 1.0;
  }
};

/// The first of the largest elements of window o; NaN counts as larger than any number. -1 in place: there is none.
template <typename T>
__device__ Compute<T> largest(const Windows &w, const Image<const T> &x, int64_t n, int64_t c,
                              const Place &o, Place &place) {
  Compute<T> best = -INFINITY;
  place[0] = place[1] = place[2] = -1;
  w.forTaps(o, [&](const Place &i, const Place &) {
    Compute<T> v = value(x.at(n, c, i));
    if (v > best || (v != v && best == best) || place[0] < 0) {
      best = v;
      for (int a = 0; a < 3; ++a)
        place[a] = i[a];
    }
  });
  return best;
}

template <typename T> __global__ void maxPoolKernel(Image<T> y, Image<const T> x, PoolSizes s) {
  forBox(s.result, [&](int64_t n, int64_t c, const Place &o) {
    Place at;
    y.at(n, c, o) = rounded<T>(largest(s.windows, x, n, c, o, at));
  });
}

template <typename T> __global__ void avgPoolKernel(Image<T> y, Image<const T> x, PoolSizes s) {
  forBox(s.result, [&](int64_t n, int64_t c, const Place &o) {
    double sum = 0;
    s.windows.forTaps(o, [&](const Place &i, const Place &) {
      sum += static_cast<double>(value(x.at(n, c, i)));
    });
    y.at(n, c, o) = rounded<T>(static_cast<Wide<T>>(sum / s.count(o)));
  });
}

template <typename T>
__global__ void maxPoolGradKernel(Image<T> dx, Image<const T> dy, Image<const T> x, PoolSizes s) {
  forBox(s.result, [&](int64_t n, int64_t c, const Place &i) {
    double sum = 0;
    s.windows.forWindowsAt(i, [&](const Place &o, const Place &) {
      Place at;
      largest(s.windows, x, n, c, o, at);
      if (at[0] == i[0] && at[1] == i[1] && at[2] == i[2])
        sum += static_cast<double>(value(dy.at(n, c, o)));
    });
    dx.at(n, c, i) = rounded<T>(static_cast<Wide<T>>(sum));
  });
}

template <typename T>
__global__ void avgPoolGradKernel(Image<T> dx, Image<const T> dy, PoolSizes s) {
  forBox(s.result, [&](int64_t n, int64_t c, const Place &i) {
    double sum = 0;
    s.windows.forWindowsAt(i, [&](const Place &o, const Place &) {
      sum += static_cast<double>(value(dy.at(n, c, o))) / s.count(o);
    });
    dx.at(n, c, i) = rounded<T>(static_cast<Wide<T>>(sum));
  });
}

/// f(Tag<T>, sizes) unless there is nothing to do.
template <typename F> const char *pool(const DsLaunch &l, bool isGrad, bool isMean, F f) {
  PoolShape shape(l, isGrad, isMean);
  PoolSizes s = {boxOf(l.outs[0]), shape.windows, shape.countsPadding};
  if (s.result.count() == 0)
    return nullptr;
  return Floats::dispatch(l.outs[0].dtype, [&](auto tag) { return f(tag, s); });
}

dim3 gridOf(const PoolSizes &s) { return gridFor(s.result.count()); }

} // namespace

const char *maxPool(const DsLaunch *l, void *) {
  return pool(*l, false, false, [&](auto tag, const PoolSizes &s) {
    using T = typename decltype(tag)::Type;
    return launch(maxPoolKernel<T>, gridOf(s), dim3(kBlock), 0, streamOf(*l), Image<T>(l->outs[0]),
                  Image<const T>(l->ins[0]), s);
  });
}
const char *avgPool(const DsLaunch *l, void *) {
  return pool(*l, false, true, [&](auto tag, const PoolSizes &s) {
    using T = typename decltype(tag)::Type;
    return launch(avgPoolKernel<T>, gridOf(s), dim3(kBlock), 0, streamOf(*l), Image<T>(l->outs[0]),
                  Image<const T>(l->ins[0]), s);
  });
}
const char *maxPoolGrad(const DsLaunch *l, void *) {
  return pool(*l, true, false, [&](auto tag, const PoolSizes &s) {
    using T = typename decltype(tag)::Type;
    return launch(maxPoolGradKernel<T>, gridOf(s), dim3(kBlock), 0, streamOf(*l),
                  Image<T>(l->outs[0]), Image<const T>(l->ins[0]), Image<const T>(l->ins[1]), s);
  });
}
const char *avgPoolGrad(const DsLaunch *l, void *) {
  return pool(*l, true, true, [&](auto tag, const PoolSizes &s) {
    using T = typename decltype(tag)::Type;
    return launch(avgPoolGradKernel<T>, gridOf(s), dim3(kBlock), 0, streamOf(*l),
                  Image<T>(l->outs[0]), Image<const T>(l->ins[0]), s);
  });
}

} // namespace ds::cuda
