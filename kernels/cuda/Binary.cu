// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of two operands. Integers wrap.
#include "kernels/cuda/Functions.cuh"
#include "kernels/cuda/Kernels.h"

namespace ds::cuda {

#define BINARY(name, types, toBool)                                                                \
  const char *name(const DsLaunch *l, void *) { return mapBinary<types, toBool>(*l, name##Fn()); }

BINARY(add, Numbers, false)
BINARY(sub, Numbers, false)
BINARY(mul, Numbers, false)
BINARY(maxOf, Numbers, false)
BINARY(minOf, Numbers, false)
BINARY(eq, Everything, true)
BINARY(lt, Numbers, true)
BINARY(le, Numbers, true)
BINARY(gt, Numbers, true)
BINARY(ge, Numbers, true)
BINARY(andOf, Bools, false)
BINARY(orOf, Bools, false)
BINARY(xorOf, Bools, false)
BINARY(reluGrad, Floats, false)
BINARY(tanhGrad, Floats, false)

/// An integer divisor of zero is a fault, and the lowest value by -1 wraps.
struct DivFn {
  DsFault *fault;
  int32_t id;
  template <typename V> __device__ V operator()(V a, V b) const {
    if constexpr (kIsInt<V>) {
      if (b == 0)
        setFault(fault, id, kZeroDivisor, static_cast<int64_t>(a), 0);
      return b == 0 ? V(0) : b == V(-1) ? static_cast<V>(0 - wide(a)) : static_cast<V>(a / b);
    } else {
      return a / b;
    }
  }
};
const char *div(const DsLaunch *l, void *) {
  return mapBinary<Numbers>(*l, DivFn{l->fault, l->id});
}

struct ModFn {
  bool truncated; // the result has a's sign, else b's
  DsFault *fault;
  int32_t id;
  template <typename V> __device__ V operator()(V a, V b) const {
    V r;
    if constexpr (kIsInt<V>) {
      if (b == 0)
        setFault(fault, id, kZeroDivisor, static_cast<int64_t>(a), 0);
      r = b == 0 || b == V(-1) ? V(0) : static_cast<V>(a % b);
    } else {
      r = static_cast<V>(fmod(a, b));
    }
    return !truncated && r != V(0) && (r < V(0)) != (b < V(0)) ? static_cast<V>(r + b) : r;
  }
};
const char *mod(const DsLaunch *l, void *) {
  return mapBinary<Numbers>(*l, ModFn{flag(*l, "fmod"), l->fault, l->id});
}

const char *geluGrad(const DsLaunch *l, void *) {
  return mapBinary<Floats>(*l, GeluGradFn{flag(*l, "tanh")});
}

struct PowFn {
  template <typename V, typename E> __device__ V operator()(V a, E b) const {
    return static_cast<V>(pow(a, static_cast<V>(b)));
  }
};
// The exponent may have a type of its own.
const char *powOf(const DsLaunch *l, void *) {
  return Floats::dispatch(l->ins[0].dtype, [&](auto baseTag) {
    return Numbers::dispatch(l->ins[1].dtype, [&](auto exponentTag) {
      using T = typename decltype(baseTag)::Type;
      using E = typename decltype(exponentTag)::Type;
      const T *base = elem::dataOf<T>(l->ins[0]);
      const E *exponent = elem::dataOf<E>(l->ins[1]);
      return mapInto(*l, PowFn(), stridedOf(l->outs[0], l->ins[0], l->ins[1]),
                     elem::dataOf<T>(l->outs[0]), base, exponent);
    });
  });
}

} // namespace ds::cuda
