// SPDX-License-Identifier: Apache-2.0
//
// One element of a convolution and of its gradients, as one sum in double: what `ref` computes everywhere, and `cpu`
// where oneDNN does not serve.
#pragma once

#include "kernels/Element.h"
#include "kernels/Window.h"

namespace ds {

enum class ConvKind : uint8_t { Forward, GradInput, GradWeight };

/// The three tensors y = conv(x, w) of a launch, of which one is the result, and their shape.
struct ConvShape {
  ConvKind kind;
  DsTensor x, w, y;
  Windows windows;
  int64_t groups;

  ConvShape(const DsLaunch &l, ConvKind k)
      : kind(k), x(k == ConvKind::GradInput ? l.outs[0] : l.ins[k == ConvKind::GradWeight]),
        w(k == ConvKind::GradWeight ? l.outs[0] : l.ins[1]),
        y(k == ConvKind::Forward ? l.outs[0] : l.ins[0]), windows(windowsOf(l, x, y, w.dims + 2)),
        groups(attr(l, "groups").i) {}

  int64_t groupInputs() const { return x.dims[1] / groups; }
  int64_t groupOutputs() const { return y.dims[1] / groups; }
  /// Of the result: its first two axes.
  const DsTensor &result() const {
    return kind == ConvKind::Forward ? y : kind == ConvKind::GradInput ? x : w;
  }
  int64_t planes() const { return result().dims[0] * result().dims[1]; }
};

/// y[n,m,o]: channels of x first to last, in each the taps in row-major order.
template <class T>
double convAt(const ConvShape &s, const Image<const T> &x, const Image<const T> &w, int64_t n,
              int64_t m, const Place &o) {
  double sum = 0;
  int64_t first = m / s.groupOutputs() * s.groupInputs();
  for (int64_t c = 0; c < s.groupInputs(); ++c)
    s.windows.forTaps(o, [&](const Place &i, const Place &k) {
      sum += static_cast<double>(elem::load(x.at(n, first + c, i))) *
             static_cast<double>(elem::load(w.at(m, c, k)));
    });
  return sum;
}

/// dx[n,c,i]
template <class T>
double convGradInputAt(const ConvShape &s, const Image<const T> &dy, const Image<const T> &w,
                       int64_t n, int64_t c, const Place &i) {
  double sum = 0;
  int64_t group = c / s.groupInputs(), first = group * s.groupOutputs();
  for (int64_t m = first; m < first + s.groupOutputs(); ++m)
    s.windows.forWindowsAt(i, [&](const Place &o, const Place &k) {
      sum += static_cast<double>(elem::load(dy.at(n, m, o))) *
             static_cast<double>(elem::load(w.at(m, c - group * s.groupInputs(), k)));
    });
  return sum;
}

/// dw[m,c,k]
template <class T>
double convGradWeightAt(const ConvShape &s, const Image<const T> &dy, const Image<const T> &x,
                        int64_t m, int64_t c, const Place &k) {
  double sum = 0;
  int64_t channel = m / s.groupOutputs() * s.groupInputs() + c;
  for (int64_t n = 0; n < s.x.dims[0]; ++n)
    s.windows.forOut([&](const Place &o) {
      Place i;
      for (int a = 0; a < 3; ++a) {
        i[a] = s.windows.axis[a].at(o[a], k[a]);
        if (i[a] < 0 || i[a] >= s.windows.axis[a].in)
          return;
      }
      sum += static_cast<double>(elem::load(dy.at(n, m, o))) *
             static_cast<double>(elem::load(x.at(n, channel, i)));
    });
  return sum;
}

/// Planes [begin, end) of the result, all elements of each.
template <class T> void convPlanes(const ConvShape &s, int64_t begin, int64_t end) {
  using I = Image<const T>;
  const I x(s.x), w(s.w), y(s.y);
  const Image<T> out(s.result());
  const Windows &v = s.windows;
  int64_t channels = s.result().dims[1];
  for (int64_t p = begin; p < end; ++p) {
    int64_t i = p / channels, j = p % channels;
    auto set = [&](const Place &at, double sum) { out.at(i, j, at) = elem::store<T>(sum); };
    if (s.kind == ConvKind::Forward)
      v.forOut([&](const Place &o) { set(o, convAt<T>(s, x, w, i, j, o)); });
    else if (s.kind == ConvKind::GradInput)
      v.forIn([&](const Place &at) { set(at, convGradInputAt<T>(s, y, w, i, j, at)); });
    else
      v.forTap([&](const Place &k) { set(k, convGradWeightAt<T>(s, y, x, i, j, k)); });
  }
}

} // namespace ds
