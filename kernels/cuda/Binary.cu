// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of two operands. Integers wrap.
#include "kernels/cuda/Kernels.h"
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

#define BINARY(name, types, toBool, expr)                                                          \
  struct name##Fn {                                                                                \
    template <typename V> __device__ auto operator()(V a, V b) const {                             \
      return static_cast<std::conditional_t<toBool, bool, V>>(expr);                               \
    }                                                                                              \
  };                                                                                               \
  const char *name(const DsLaunch *l, void *) { return mapBinary<types, toBool>(*l, name##Fn()); }

BINARY(add, Numbers, false, wide(a) + wide(b))
BINARY(sub, Numbers, false, wide(a) - wide(b))
BINARY(mul, Numbers, false, wide(a) * wide(b))
BINARY(maxOf, Numbers, false, a != a ? a : b != b ? b : a < b ? b : a)
BINARY(minOf, Numbers, false, a != a ? a : b != b ? b : b < a ? b : a)
BINARY(eq, Everything, true, a == b)
BINARY(lt, Numbers, true, a < b)
BINARY(le, Numbers, true, a <= b)
BINARY(gt, Numbers, true, a > b)
BINARY(ge, Numbers, true, a >= b)
BINARY(andOf, Bools, false, a &&b)
BINARY(orOf, Bools, false, a || b)
BINARY(xorOf, Bools, false, a != b)
BINARY(div, Floats, false, a / b)
BINARY(reluGrad, Floats, false, b > V(0) ? a : V(0))
BINARY(tanhGrad, Floats, false, a *(V(1) - b * b))

struct GeluGradFn {
  bool tanhForm;
  template <typename V> __device__ V operator()(V dy, V x) const {
    return dy * geluSlope(x, tanhForm);
  }
};
const char *geluGrad(const DsLaunch *l, void *) {
  return mapBinary<Floats>(*l, GeluGradFn{flag(*l, "tanh")});
}

template <typename T, typename E> struct PowBody {
  T *out;
  const T *a;
  const E *b;
  __device__ void operator()(const int64_t (&at)[3]) const {
    using V = Compute<T>;
    out[at[0]] = rounded<T>(
        static_cast<V>(pow(static_cast<V>(value(a[at[1]])), static_cast<V>(value(b[at[2]])))));
  }
};
// The exponent may have a type of its own.
const char *powOf(const DsLaunch *l, void *) {
  return Floats::dispatch(l->ins[0].dtype, [&](auto baseTag) {
    return Numbers::dispatch(l->ins[1].dtype, [&](auto exponentTag) {
      using T = typename decltype(baseTag)::Type;
      using E = typename decltype(exponentTag)::Type;
      return launchElements(*l,
                            PowBody<T, E>{elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                                          elem::dataOf<E>(l->ins[1])},
                            stridedOf(l->outs[0], l->ins[0], l->ins[1]));
    });
  });
}

} // namespace ds::cuda
