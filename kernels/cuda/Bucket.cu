// SPDX-License-Identifier: Apache-2.0
//
// Filling buckets and accumulators.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

template <typename T> struct PackBody {
  T *out;
  const T *x;
  __device__ void operator()(const int64_t (&at)[2]) const { out[at[0]] = x[at[1]]; }
};

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
                launchElements(*l, PackBody<T>{to + at[k], elem::dataOf<T>(x)}, s))
          return message;
      }
      end = at[k] + elems(x);
    }
    return clear(end, elems(out));
  });
}

template <typename T, typename A> struct StoreBody {
  A *out;
  const T *v;
  __device__ void operator()(const int64_t (&at)[2]) const { out[at[0]] = value(v[at[1]]); }
};
template <typename T, typename A> struct AddBody {
  A *out;
  const A *sum;
  const T *v;
  __device__ void operator()(const int64_t (&at)[3]) const {
    out[at[0]] = sum[at[1]] + static_cast<A>(value(v[at[2]]));
  }
};

// ([acc,] v): the result is acc + v, or v alone, in the accumulate type.
const char *accumulate(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &v = l->ins[l->numIns - 1], &acc = l->ins[0];
  bool first = flag(*l, "first");
  return Numbers::dispatch(v.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<kIsHalf<T>, float, T>;
    if (first)
      return launchElements(*l, StoreBody<T, A>{elem::dataOf<A>(out), elem::dataOf<T>(v)},
                            stridedOf(out, v));
    return launchElements(
        *l, AddBody<T, A>{elem::dataOf<A>(out), elem::dataOf<A>(acc), elem::dataOf<T>(v)},
        stridedOf(out, acc, v));
  });
}

} // namespace ds::cuda
