// SPDX-License-Identifier: Apache-2.0
//
// Elementwise launches of a functor over one or two operands of one type.
#pragma once

#include "kernels/cuda/Half.cuh"
#include "kernels/cuda/Strided.cuh"

#include <cmath>

namespace ds::cuda {

/// f(Tag<T>) for the types that the plugin's elementwise kernels take; f returns null or a message.
struct Floats {
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    return elem::dispatchFloat(t, f);
  }
};
struct Numbers {
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    switch (static_cast<DType>(t)) {
    case DType::I64:
      return f(elem::Tag<int64_t>());
    case DType::I32:
      return f(elem::Tag<int32_t>());
    default:
      return elem::dispatchFloat(t, f);
    }
  }
};
struct Bools {
  template <typename F> static const char *dispatch(uint8_t, F f) { return f(elem::Tag<Bool>()); }
};
struct Everything { // for comparisons
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    return static_cast<DType>(t) == DType::Bool ? f(elem::Tag<Bool>()) : Numbers::dispatch(t, f);
  }
};

template <typename T, typename R, typename F> struct UnaryBody {
  F f;
  R *out;
  const T *x;
  __device__ void operator()(const int64_t (&at)[2]) const {
    out[at[0]] = rounded<R>(f(value(x[at[1]])));
  }
};
template <typename T, typename R, typename F> struct BinaryBody {
  F f;
  R *out;
  const T *a, *b;
  __device__ void operator()(const int64_t (&at)[3]) const {
    out[at[0]] = rounded<R>(f(value(a[at[1]]), value(b[at[2]])));
  }
};

template <typename T, bool kToBool> using ResultOf = std::conditional_t<kToBool, Bool, T>;

template <typename Types, bool kToBool = false, typename F>
const char *mapUnary(const DsLaunch &l, F f) {
  return Types::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using R = ResultOf<T, kToBool>;
    return launchElements(
        l, UnaryBody<T, R, F>{f, elem::dataOf<R>(l.outs[0]), elem::dataOf<T>(l.ins[0])},
        stridedOf(l.outs[0], l.ins[0]));
  });
}
template <typename Types, bool kToBool = false, typename F>
const char *mapBinary(const DsLaunch &l, F f) {
  return Types::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using R = ResultOf<T, kToBool>;
    return launchElements(l,
                          BinaryBody<T, R, F>{f, elem::dataOf<R>(l.outs[0]),
                                              elem::dataOf<T>(l.ins[0]), elem::dataOf<T>(l.ins[1])},
                          stridedOf(l.outs[0], l.ins[0], l.ins[1]));
  });
}

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

} // namespace ds::cuda
