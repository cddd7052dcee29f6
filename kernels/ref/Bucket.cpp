// SPDX-License-Identifier: Apache-2.0
//
// Filling buckets and accumulators.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <cstring>

namespace ds::ref {

// Operands lie row-major from at[i] on and everything else is zero. An operand that its producer already wrote
// in place is left alone, so gaps are cleared one by one.
const char *refPack(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  const int64_t *at = attr(*l, "at").list;
  if (!isRowMajor(out))
    return "pack: the bucket is not contiguous";
  return dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *to = dataOf<T>(out);
    int64_t end = 0; // of what has been written
    for (int32_t k = 0; k < l->numIns; ++k) {
      const DsTensor &x = l->ins[k];
      for (; end < at[k]; ++end)
        to[end] = 0;
      bool inPlace = dataOf<T>(x) == to + at[k] && isRowMajor(x);
      if (!inPlace) {
        Loop<1> loop;
        for (int i = 0; i < x.rank; ++i)
          loop.add(x.dims[i], {x.strides[i]});
        T *next = to + at[k];
        walk(loop, [&](int64_t i) { *next++ = dataOf<T>(x)[i]; });
      }
      end = at[k] + elems(x);
    }
    for (; end < elems(out); ++end)
      to[end] = 0;
    return nullptr;
  });
}

// ([acc,] v): the result is acc + v, or v alone, in the accumulate type.
const char *refAccumulate(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &v = l->ins[l->numIns - 1], &acc = l->ins[0];
  bool first = flag(*l, "first");
  return dispatchNumber(v.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<kIsHalf<T>, float, T>;
    A *to = dataOf<A>(out);
    const T *from = dataOf<T>(v);
    const A *sum = dataOf<A>(acc);
    if (first)
      walk(loopOf(out, v), [&](int64_t o, int64_t i) { to[o] = load(from[i]); });
    else
      walk(loopOf(out, acc, v), [&](int64_t o, int64_t a, int64_t i) {
        if constexpr (kIsFloat<T>)
          to[o] = sum[a] + load(from[i]);
        else
          to[o] = static_cast<A>(static_cast<uint64_t>(sum[a]) + static_cast<uint64_t>(from[i]));
      });
    return nullptr;
  });
}

} // namespace ds::ref
