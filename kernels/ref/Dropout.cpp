// SPDX-License-Identifier: Apache-2.0
#include "kernels/DropoutMath.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

const char *refDropout(const DsLaunch *l, void *) {
  DropoutMath math(*l);
  return dispatchFloat(l->ins[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    T *y = dataOf<T>(l->outs[0]);
    const T *x = dataOf<T>(l->ins[0]);
    int64_t e = 0;
    walk(loopOf(l->outs[0], l->ins[0]), [&](int64_t o, int64_t i) {
      y[o] = store<T>(math.keeps(e++) ? load(x[i]) * static_cast<C>(math.scale) : C(0));
    });
    return nullptr;
  });
}

} // namespace ds::ref
