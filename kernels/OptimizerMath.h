// SPDX-License-Identifier: Apache-2.0
//
// Optimizer arithmetic, one fixed sequence of IEEE operations per element (D7). Every device performs exactly
// these operations in this order on T (f32 or f64), with a fused multiply-add where std::fma stands and
// nowhere else; vector code translates line by line. Scalars are computed in double and rounded once.
#pragma once

#include "ir/HostDevice.h"

#include <cmath>

namespace ds {

template <typename T> struct AdamScalars {
  T clip;         // gradient factor
  T l2;           // weight decay that is added to the gradient; 0 when decoupled
  T b1, restB1;   // b1, 1 - b1
  T b2, restB2;   // b2, 1 - b2
  T rootCorrect2; // 1 / sqrt(1 - b2^t), or 1
  T eps;
  T keep; // 1 - lr * decay when decoupled, else 1
  T step; // -lr / (1 - b1^t), or -lr
};

struct AdamConfig {
  double b1, b2, eps;
  bool decoupled, biasCorrection;
};

/// b1t and b2t are the products of the updates before this one.
template <typename T>
DS_HOST_DEVICE AdamScalars<T> adamScalars(const AdamConfig &c, double lr, double decay, double clip,
                                          double b1t, double b2t) {
  double correct1 = c.biasCorrection ? 1 - b1t * c.b1 : 1;
  double correct2 = c.biasCorrection ? 1 - b2t * c.b2 : 1;
  AdamScalars<T> s;
  s.clip = static_cast<T>(clip);
  s.l2 = static_cast<T>(c.decoupled ? 0 : decay);
  s.b1 = static_cast<T>(c.b1);
  s.restB1 = static_cast<T>(1 - c.b1);
  s.b2 = static_cast<T>(c.b2);
  s.restB2 = static_cast<T>(1 - c.b2);
  s.rootCorrect2 = static_cast<T>(1 / std::sqrt(correct2));
  s.eps = static_cast<T>(c.eps);
  s.keep = static_cast<T>(c.decoupled ? 1 - lr * decay : 1);
  s.step = static_cast<T>(-lr / correct1);
  return s;
}

template <typename T>
DS_HOST_DEVICE inline void adamElement(const AdamScalars<T> &s, T g, T &p, T &m, T &v) {
  g = g * s.clip;
  g = std::fma(s.l2, p, g);
  m = std::fma(s.b1, m, s.restB1 * g);
  v = std::fma(s.b2, v, (s.restB2 * g) * g);
  T denominator = std::fma(std::sqrt(v), s.rootCorrect2, s.eps);
  p = p * s.keep;
  p = std::fma(s.step, m / denominator, p);
}

template <typename T> struct SgdScalars {
  T clip;
  T l2; // weight decay, added to the gradient
  T momentum;
  T step; // -lr
};

template <typename T>
DS_HOST_DEVICE SgdScalars<T> sgdScalars(double momentum, double lr, double decay, double clip) {
  return {static_cast<T>(clip), static_cast<T>(decay), static_cast<T>(momentum),
          static_cast<T>(-lr)};
}

/// Without momentum m becomes the gradient itself, and nothing depends on it.
template <typename T>
DS_HOST_DEVICE inline void sgdElement(const SgdScalars<T> &s, bool nesterov, T g, T &p, T &m) {
  g = g * s.clip;
  g = std::fma(s.l2, p, g);
  m = std::fma(s.momentum, m, g);
  T direction = nesterov ? std::fma(s.momentum, m, g) : m;
  p = std::fma(s.step, direction, p);
}

} // namespace ds
