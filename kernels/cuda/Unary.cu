// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of one operand. 16-bit types are computed in f32.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

#define UNARY(name, dispatch, expr)                                                                \
  struct name##Fn {                                                                                \
    template <typename V> __device__ V operator()(V x) const { return static_cast<V>(expr); }      \
  };                                                                                               \
  const char *name(const DsLaunch *l, void *) { return mapUnary<dispatch>(*l, name##Fn()); }

UNARY(neg, Numbers, -x)
UNARY(abs, Numbers, x < V(0) ? -x : x == V(0) ? V(0) : x)
UNARY(sign, Numbers, x > V(0) ? V(1) : x < V(0) ? V(-1) : x)
UNARY(relu, Numbers, x > V(0) || x != x ? x : V(0))
UNARY(expOf, Floats, exp(x))
UNARY(logOf, Floats, log(x))
UNARY(sqrtOf, Floats, sqrt(x))
UNARY(reciprocal, Floats, V(1) / x)
UNARY(tanhOf, Floats, tanh(x))
UNARY(sigmoid, Floats, V(1) / (V(1) + exp(-x)))
UNARY(erfOf, Floats, erf(x))
UNARY(sinOf, Floats, sin(x))
UNARY(cosOf, Floats, cos(x))
UNARY(floorOf, Floats, floor(x))
UNARY(ceilOf, Floats, ceil(x))
UNARY(roundOf, Floats, rint(x))

struct GeluFn {
  bool tanhForm;
  template <typename V> __device__ V operator()(V x) const { return gelu(x, tanhForm); }
};
const char *geluOf(const DsLaunch *l, void *) {
  return mapUnary<Floats>(*l, GeluFn{flag(*l, "tanh")});
}

struct NotFn {
  __device__ bool operator()(bool x) const { return !x; }
};
const char *notOf(const DsLaunch *l, void *) { return mapUnary<Bools>(*l, NotFn()); }

struct IsNanFn {
  template <typename V> __device__ bool operator()(V x) const { return x != x; }
};
const char *isNan(const DsLaunch *l, void *) { return mapUnary<Floats, true>(*l, IsNanFn()); }

struct IsInfFn {
  bool positive, negative;
  template <typename V> __device__ bool operator()(V x) const {
    return x - x != V(0) && x == x && (x > V(0) ? positive : negative);
  }
};
const char *isInf(const DsLaunch *l, void *) {
  return mapUnary<Floats, true>(*l, IsInfFn{flag(*l, "positive"), flag(*l, "negative")});
}

} // namespace ds::cuda
