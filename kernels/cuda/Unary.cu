// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of one operand. 16-bit types are computed in f32.
#include "kernels/cuda/Functions.cuh"
#include "kernels/cuda/Kernels.h"

namespace ds::cuda {

#define UNARY(name, dispatch)                                                                      \
  const char *name(const DsLaunch *l, void *) { return mapUnary<dispatch>(*l, name##Fn()); }

UNARY(neg, Numbers)
UNARY(abs, Numbers)
UNARY(sign, Numbers)
UNARY(relu, Numbers)
UNARY(expOf, Floats)
UNARY(logOf, Floats)
UNARY(sqrtOf, Floats)
UNARY(reciprocal, Floats)
UNARY(tanhOf, Floats)
UNARY(sigmoid, Floats)
UNARY(erfOf, Floats)
UNARY(sinOf, Floats)
UNARY(cosOf, Floats)
UNARY(floorOf, Floats)
UNARY(ceilOf, Floats)
UNARY(roundOf, Floats)

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
