// SPDX-License-Identifier: Apache-2.0
//
// What pooling kernels share: the windows of a launch, the first of a window's largest elements, what a mean divides
// by, and the forward results of one plane (a batch element's channel).
#pragma once

#include "kernels/Element.h"
#include "kernels/Window.h"

#include <cmath>

namespace ds {

struct PoolShape {
  int64_t batch, channels;
  Windows windows;
  bool countsPadding;

  /// The gradient's first operand has the shape of the forward result, its result that of the operand.
  PoolShape(const DsLaunch &l, bool isGrad, bool isMean)
      : PoolShape(l, isGrad ? l.outs[0] : l.ins[0], isGrad ? l.ins[0] : l.outs[0],
                  isMean && flag(l, "count_padding")) {}

  int64_t planes() const { return batch * channels; }
  /// Elements that the mean of window o counts; of a window that is all padding 1, so that its mean is 0.
  double count(const Place &o) const {
    double n = 1;
    for (int a = 0; a < 3; ++a) {
      const WindowAxis &w = windows.axis[a];
      n *= static_cast<double>(countsPadding ? w.window : w.lastTap(o[a]) - w.firstTap(o[a]));
    }
    return std::max(n, 1.0);
  }

private:
  PoolShape(const DsLaunch &l, const DsTensor &x, const DsTensor &y, bool padding)
      : batch(x.dims[0]), channels(x.dims[1]),
        windows(windowsOf(l, x, y, attr(l, "window").count ? attr(l, "window").list : nullptr)),
        countsPadding(padding) {}
};

template <class T> struct Largest {
  T value; // the lowest value if the window is all padding
  Place place = {-1, -1, -1};

  bool isAt(const Place &p) const {
    return place[0] == p[0] && place[1] == p[1] && place[2] == p[2];
  }
};

/// NaN counts as larger than any number.
template <class T>
Largest<T> maxOf(const Windows &w, const Image<const T> &x, int64_t n, int64_t c, const Place &o) {
  using C = elem::Compute<T>;
  C best = -std::numeric_limits<C>::infinity();
  Largest<T> out;
  w.forTaps(o, [&](const Place &i, const Place &) {
    C v = elem::load(x.at(n, c, i));
    if (v > best || (std::isnan(v) && !std::isnan(best)) || out.place[0] < 0) {
      best = v;
      std::copy(i, i + 3, out.place);
    }
  });
  out.value = elem::store<T>(best);
  return out;
}

template <class T>
void maxPlane(const PoolShape &s, const Image<const T> &x, const Image<T> &y, int64_t n,
              int64_t c) {
  s.windows.forOut([&](const Place &o) { y.at(n, c, o) = maxOf(s.windows, x, n, c, o).value; });
}

template <class T>
void avgPlane(const PoolShape &s, const Image<const T> &x, const Image<T> &y, int64_t n,
              int64_t c) {
  s.windows.forOut([&](const Place &o) {
    double sum = 0;
    s.windows.forTaps(o, [&](const Place &i, const Place &) {
      sum += static_cast<double>(elem::load(x.at(n, c, i)));
    });
    y.at(n, c, o) = elem::store<T>(sum / s.count(o));
  });
}

/// f(batch element, channel) for planes [begin, end).
template <class F> void forPlanes(const PoolShape &s, int64_t begin, int64_t end, F f) {
  for (int64_t p = begin; p < end; ++p)
    f(p / s.channels, p % s.channels);
}

} // namespace ds
