// SPDX-License-Identifier: Apache-2.0
//
// Filling buckets and accumulators.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

// An operand that its producer already wrote in place is left alone, so gaps are cleared one by one.
const char *pack(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  const int64_t *at = attr(*l, "at").list;
  if (!isRowMajor(out))
    return "the bucket is not contiguous";
  return elem::dispatchSize(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *to = elem::dataOf<T>(out);
    int64_t end = 0;
    auto clear = [&](int64_t from, int64_t until) -> const char * {
      if (from >= until)
        return nullptr;
      return checked(cudaMemsetAsync(to + from, 0, sizeof(T) * static_cast<size_t>(until - from),
                                     streamOf(*l)),
                     "cudaMemsetAsync");
    };
    for (int32_t k = 0; k < l->numIns; ++k) {
      const DsTensor &x = l->ins[k];
      if (const char *message = clear(end, at[k]))
        return message;
      if (elem::dataOf<T>(x) != to + at[k] || !isRowMajor(x)) {
        Strided<2> s;
        int64_t rowMajor = elems(x);
        for (int i = 0; i < x.rank; ++i) {
          rowMajor /= std::max<int64_t>(1, x.dims[i]);
          s.add(x.dims[i], {rowMajor, x.strides[i]});
        }
        if (const char *message =
                mapInto(*l, SameFn(), s, to + at[k], static_cast<const T *>(elem::dataOf<T>(x))))
          return message;
      }
      end = at[k] + elems(x);
    }
    return clear(end, elems(out));
  });
}

template <typename A> struct ToSumFn {
  template <typename V> __device__ A operator()(V v) const { return static_cast<A>(v); }
  template <typename V> __device__ A operator()(A sum, V v) const {
    return sum + static_cast<A>(v);
  }
};

// ([acc,] v): the result is acc + v, or v alone, in the accumulate type.
const char *accumulate(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &v = l->ins[l->numIns - 1], &acc = l->ins[0];
  bool first = flag(*l, "first");
  return Numbers::dispatch(v.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<kIsHalf<T>, float, T>;
    A *to = elem::dataOf<A>(out);
    const A *sum = elem::dataOf<A>(acc);
    const T *term = elem::dataOf<T>(v);
    return first ? mapInto(*l, ToSumFn<A>(), stridedOf(out, v), to, term)
                 : mapInto(*l, ToSumFn<A>(), stridedOf(out, acc, v), to, sum, term);
  });
}

} // namespace ds::cuda
