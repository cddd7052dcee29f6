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

} // namespace ds::cuda
