// SPDX-License-Identifier: Apache-2.0
//
// Windows over the axes behind batch and channels, for convolution and pooling: always three axes, of which leading
// ones that the tensors lack have one element. Tap k of window o lies at o * stride - low + k * dilation of x.
#pragma once

#include "ir/HostDevice.h"
#include "kernels/Kernel.h"

#include <algorithm>

namespace ds {

struct WindowAxis {
  int64_t in = 1, out = 1, window = 1, stride = 1, low = 0, dilation = 1;

  DS_HOST_DEVICE int64_t at(int64_t o, int64_t k) const { return o * stride - low + k * dilation; }
  /// Taps [first, last) of window o lie in x, not in its padding.
  DS_HOST_DEVICE int64_t firstTap(int64_t o) const {
    int64_t before = -at(o, 0);
    return before <= 0 ? 0 : atMost(dilation == 1 ? before : (before + dilation - 1) / dilation);
  }
  DS_HOST_DEVICE int64_t lastTap(int64_t o) const {
    int64_t room = in - at(o, 0);
    return room <= 0 ? 0 : atMost(dilation == 1 ? room : (room - 1) / dilation + 1);
  }
  DS_HOST_DEVICE int64_t atMost(int64_t taps) const { return taps < window ? taps : window; }
  /// The window whose tap k is element i of x, or -1.
  DS_HOST_DEVICE int64_t windowAt(int64_t i, int64_t k) const {
    int64_t from = i + low - k * dilation;
    return from >= 0 && from % stride == 0 && from / stride < out ? from / stride : -1;
  }
};

using Place = int64_t[3];

struct Windows {
  WindowAxis axis[3];

  /// f(place in x, tap) for every tap of window o that lies in x, the last axis fastest.
  template <class F> DS_HOST_DEVICE void forTaps(const Place &o, F f) const {
    Place first, last, i, k;
    for (int a = 0; a < 3; ++a) {
      first[a] = axis[a].firstTap(o[a]);
      last[a] = axis[a].lastTap(o[a]);
    }
    for (k[0] = first[0]; k[0] < last[0]; ++k[0]) {
      i[0] = axis[0].at(o[0], k[0]);
      for (k[1] = first[1]; k[1] < last[1]; ++k[1]) {
        i[1] = axis[1].at(o[1], k[1]);
        for (k[2] = first[2]; k[2] < last[2]; ++k[2]) {
          i[2] = axis[2].at(o[2], k[2]);
          f(i, k);
        }
      }
    }
  }
  /// f(window, tap) for every window that covers element i of x.
  template <class F> DS_HOST_DEVICE void forWindowsAt(const Place &i, F f) const {
    Place o, k;
    for (k[0] = 0; k[0] < axis[0].window; ++k[0])
      if ((o[0] = axis[0].windowAt(i[0], k[0])) >= 0)
        for (k[1] = 0; k[1] < axis[1].window; ++k[1])
          if ((o[1] = axis[1].windowAt(i[1], k[1])) >= 0)
            for (k[2] = 0; k[2] < axis[2].window; ++k[2])
              if ((o[2] = axis[2].windowAt(i[2], k[2])) >= 0)
                f(o, k);
  }
  /// f for every window, every element of x, every tap.
  template <class F> void forOut(F f) const { forBox(axis[0].out, axis[1].out, axis[2].out, f); }
  template <class F> void forIn(F f) const { forBox(axis[0].in, axis[1].in, axis[2].in, f); }

  template <class F> void forTap(F f) const {
    forBox(axis[0].window, axis[1].window, axis[2].window, f);
  }

  template <class F> static void forBox(int64_t n0, int64_t n1, int64_t n2, F f) {
    Place p;
    for (p[0] = 0; p[0] < n0; ++p[0])
      for (p[1] = 0; p[1] < n1; ++p[1])
        for (p[2] = 0; p[2] < n2; ++p[2])
          f(p);
  }
};

/// window: extents of the axes behind the channels of x.
inline Windows windowsOf(const DsLaunch &l, const DsTensor &x, const DsTensor &y,
                         const int64_t *window) {
  Windows w;
  auto entry = [&](const char *name, int i, int64_t otherwise) {
    const DsAttr &a = attr(l, name);
    return a.count ? a.list[i] : otherwise;
  };
  for (int i = 0; i + 2 < x.rank; ++i) {
    WindowAxis &a = w.axis[i + 5 - x.rank];
    a = {x.dims[i + 2],          y.dims[i + 2],      window ? window[i] : 1,
         entry("strides", i, 1), entry("low", i, 0), entry("dilations", i, 1)};
  }
  return w;
}

/// A tensor [N,C,..] with its leading axes of one element: strides 0.
template <class T> struct Image {
  T *data;
  int64_t n, c, s[3] = {0, 0, 0};

  explicit Image(const DsTensor &t)
      : data(static_cast<T *>(t.data)), n(t.strides[0]), c(t.strides[1]) {
    for (int i = 2; i < t.rank; ++i)
      s[i + 3 - t.rank] = t.strides[i];
  }
  DS_HOST_DEVICE T &at(int64_t i, int64_t j, const Place &p) const {
    return data[i * n + j * c + p[0] * s[0] + p[1] * s[1] + p[2] * s[2]];
  }
};

} // namespace ds
