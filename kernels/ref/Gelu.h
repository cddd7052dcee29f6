// SPDX-License-Identifier: Apache-2.0
//
// gelu and its slope, by erf or in the tanh approximation.
#pragma once

#include <cmath>
#include <numbers>

namespace ds::ref {

inline constexpr double kTanhScale = 0.79788456080286535588; // sqrt(2 / pi)
inline constexpr double kTanhCube = 0.044715;

inline double gelu(double x, bool tanhForm) {
  if (tanhForm)
    return 0.5 * x * (1 + std::tanh(kTanhScale * (x + kTanhCube * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}
inline double geluSlope(double x, bool tanhForm) {
  if (tanhForm) {
    double t = std::tanh(kTanhScale * (x + kTanhCube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kTanhScale * (1 + 3 * kTanhCube * x * x);
  }
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
         x * std::exp(-0.5 * x * x) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
}

} // namespace ds::ref
