// SPDX-License-Identifier: Apache-2.0
//
// Convolution, pooling and their gradients: every element is one sum in double.
#include "kernels/ConvLoops.h"
#include "kernels/PoolLoops.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

static const char *conv(const DsLaunch *l, ConvKind kind) {
  return dispatchFloat(l->outs[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    ConvShape s(*l, kind);
    convPlanes<T>(s, 0, s.planes());
    return nullptr;
  });
}
const char *refConv(const DsLaunch *l, void *) { return conv(l, ConvKind::Forward); }
const char *refConvGradInput(const DsLaunch *l, void *) { return conv(l, ConvKind::GradInput); }
const char *refConvGradWeight(const DsLaunch *l, void *) { return conv(l, ConvKind::GradWeight); }

// f(plane function's tensors, batch element, channel) for every plane.
template <class F> static const char *pool(const DsLaunch *l, bool isGrad, bool isMean, F f) {
  return dispatchFloat(l->outs[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    const PoolShape s(*l, isGrad, isMean);
    const Image<const T> in(l->ins[0]);
    const Image<T> out(l->outs[0]);
    forPlanes(s, 0, s.planes(), [&](int64_t n, int64_t c) { f(s, in, out, n, c); });
    return nullptr;
  });
}

const char *refMaxPool(const DsLaunch *l, void *) {
  return pool(l, false, false, [](auto &...plane) { maxPlane(plane...); });
}

const char *refAvgPool(const DsLaunch *l, void *) {
  return pool(l, false, true, [](auto &...plane) { avgPlane(plane...); });
}

// Every element of x looks for the windows whose first largest it is.
const char *refMaxPoolGrad(const DsLaunch *l, void *) {
  return pool(l, true, false, [&](auto &s, auto &dy, auto &dx, int64_t n, int64_t c) {
    using T = std::remove_reference_t<decltype(*dx.data)>;
    const Image<const T> x(l->ins[1]);
    s.windows.forIn([&](const Place &i) {
      double sum = 0;
      s.windows.forWindowsAt(i, [&](const Place &o, const Place &) {
        if (maxOf(s.windows, x, n, c, o).isAt(i))
          sum += static_cast<double>(load(dy.at(n, c, o)));
      });
      dx.at(n, c, i) = store<T>(sum);
    });
  });
}

const char *refAvgPoolGrad(const DsLaunch *l, void *) {
  return pool(l, true, true, [](auto &s, auto &dy, auto &dx, int64_t n, int64_t c) {
    using T = std::remove_reference_t<decltype(*dx.data)>;
    s.windows.forIn([&](const Place &i) {
      double sum = 0;
      s.windows.forWindowsAt(i, [&](const Place &o, const Place &) {
        sum += static_cast<double>(load(dy.at(n, c, o))) / s.count(o);
      });
      dx.at(n, c, i) = store<T>(sum);
    });
  });
}

} // namespace ds::ref
