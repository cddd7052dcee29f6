// SPDX-License-Identifier: Apache-2.0
//
// What elementwise ops compute, as functors over the compute types: bool, integers, float for the 16-bit types and itself, double.
// Integers wrap.
#pragma once

#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

template <typename V>
inline constexpr bool kIsInt = std::is_integral_v<V> && !std::is_same_v<V, bool>;

/// Sums and products of integers as unsigned ones: they wrap.
template <typename V> __device__ auto wide(V v) {
  if constexpr (kIsInt<V>)
    return static_cast<uint64_t>(v);
  else
    return v;
}

#define DS_FUNCTION1(name, expr)                                                                   \
  struct name##Fn {                                                                                \
    template <typename V> __device__ V operator()(V x) const { return static_cast<V>(expr); }      \
  };
#define DS_FUNCTION2(name, toBool, expr)                                                           \
  struct name##Fn {                                                                                \
    template <typename V> __device__ auto operator()(V a, V b) const {                             \
      return static_cast<std::conditional_t<toBool, bool, V>>(expr);                               \
    }                                                                                              \
  };

DS_FUNCTION1(neg, -x)
DS_FUNCTION1(abs, x < V(0) ? -x : x == V(0) ? V(0) : x)
DS_FUNCTION1(sign, x > V(0) ? V(1) : x < V(0) ? V(-1) : x)
DS_FUNCTION1(relu, x > V(0) || x != x ? x : V(0))
DS_FUNCTION1(expOf, exp(x))
DS_FUNCTION1(logOf, log(x))
DS_FUNCTION1(sqrtOf, sqrt(x))
DS_FUNCTION1(reciprocal, V(1) / x)
DS_FUNCTION1(tanhOf, tanh(x))
DS_FUNCTION1(sigmoid, V(1) / (V(1) + exp(-x)))
DS_FUNCTION1(erfOf, erf(x))
DS_FUNCTION1(sinOf, sin(x))
DS_FUNCTION1(cosOf, cos(x))
DS_FUNCTION1(floorOf, floor(x))
DS_FUNCTION1(ceilOf, ceil(x))
DS_FUNCTION1(roundOf, rint(x))
DS_FUNCTION1(isZero, x == V(0))

DS_FUNCTION2(add, false, wide(a) + wide(b))
DS_FUNCTION2(sub, false, wide(a) - wide(b))
DS_FUNCTION2(mul, false, wide(a) * wide(b))
DS_FUNCTION2(maxOf, false, a != a ? a : b != b ? b : a < b ? b : a)
DS_FUNCTION2(minOf, false, a != a ? a : b != b ? b : b < a ? b : a)
DS_FUNCTION2(eq, true, a == b)
DS_FUNCTION2(lt, true, a < b)
DS_FUNCTION2(le, true, a <= b)
DS_FUNCTION2(gt, true, a > b)
DS_FUNCTION2(ge, true, a >= b)
DS_FUNCTION2(andOf, false, a &&b)
DS_FUNCTION2(orOf, false, a || b)
DS_FUNCTION2(xorOf, false, a != b)
DS_FUNCTION2(quotient, false, a / b)
DS_FUNCTION2(reluGrad, false, b > V(0) ? a : V(0))
DS_FUNCTION2(tanhGrad, false, a *(V(1) - b * b))

#undef DS_FUNCTION1
#undef DS_FUNCTION2

template <typename V> __device__ V gelu(V x, bool tanhForm) {
  constexpr V kScale = V(0.79788456080286535588), kCube = V(0.044715),
              kRoot = V(0.70710678118654752440);
  if (tanhForm)
    return V(0.5) * x * (V(1) + tanh(kScale * (x + kCube * x * x * x)));
  return V(0.5) * x * (V(1) + erf(x * kRoot));
}
template <typename V> __device__ V geluSlope(V x, bool tanhForm) {
  constexpr V kScale = V(0.79788456080286535588), kCube = V(0.044715),
              kRoot = V(0.70710678118654752440);
  constexpr V kDensity = V(0.39894228040143267794); // 1 / sqrt(2 pi)
  if (tanhForm) {
    V t = tanh(kScale * (x + kCube * x * x * x));
    return V(0.5) * (V(1) + t) +
           V(0.5) * x * (V(1) - t * t) * kScale * (V(1) + V(3) * kCube * x * x);
  }
  return V(0.5) * (V(1) + erf(x * kRoot)) + x * exp(V(-0.5) * x * x) * kDensity;
}

struct GeluFn {
  bool tanhForm;
  template <typename V> __device__ V operator()(V x) const { return gelu(x, tanhForm); }
};
struct GeluGradFn {
  bool tanhForm;
  template <typename V> __device__ V operator()(V dy, V x) const {
    return dy * geluSlope(x, tanhForm);
  }
};

} // namespace ds::cuda
