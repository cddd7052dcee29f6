// SPDX-License-Identifier: Apache-2.0
//
// Reductions over any axes. Few results of many elements each: a block per result, or, for sums down the columns of a matrix, per
// some columns. Else a thread per result, so that neighbours read neighbours. The order is always fixed.
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

#include <limits>

namespace ds::cuda {

namespace {

template <typename T>
using Accum = std::conditional_t<std::is_same_v<T, float> || kIsHalf<T>, float, Compute<T>>;

template <typename Op, typename T, typename A>
__global__ void reduceByBlock(T *out, const T *x, Strided<2> kept, Strided<1> reduced, A start) {
  for (int64_t o = blockIdx.x; o < kept.count; o += gridDim.x) {
    int64_t at[2];
    kept.offsets(o, at);
    A v = start;
    for (int64_t i = threadIdx.x; i < reduced.count; i += blockDim.x) {
      int64_t from[1];
      reduced.offsets(i, from);
      v = Op::apply(v, static_cast<A>(value(x[at[1] + from[0]])));
    }
    v = overBlock<Op>(v);
    if (threadIdx.x == 0)
      out[at[0]] = rounded<T>(v);
  }
}

template <typename Op, typename T, typename A>
__global__ void reduceByThread(T *out, const T *x, Strided<2> kept, Strided<1> reduced, A start) {
  for (int64_t o = firstIndex(); o < kept.count; o += indexStep()) {
    int64_t at[2];
    kept.offsets(o, at);
    // Four sums, so that one does not grow by all elements: errors stay near those of the block's tree.
    A v[4] = {start, start, start, start};
    auto add = [&](A &to, int64_t i) {
      int64_t from[1];
      reduced.offsets(i, from);
      to = Op::apply(to, static_cast<A>(value(x[at[1] + from[0]])));
    };
    int64_t i = 0;
    for (; i + 4 <= reduced.count; i += 4)
      DS_UNROLL
    for (int k = 0; k < 4; ++k)
      add(v[k], i + k);
    DS_UNROLL
    for (int k = 0; k < 3; ++k)
      if (i + k < reduced.count)
        add(v[k], i + k);
    out[at[0]] = rounded<T>(Op::apply(Op::apply(v[0], v[1]), Op::apply(v[2], v[3])));
  }
}

// x[r * step + k] over r.
template <typename T>
__global__ void __launch_bounds__(kColumnBlock)
    sumColumnsKernel(T *out, const T *x, int64_t rows, int64_t step, int64_t n) {
  sumColumns<1>(
      rows, n,
      [&](double(&sums)[1], int64_t r, int64_t k) {
        sums[0] += static_cast<double>(value(x[r * step + k]));
      },
      [&](int, int64_t k, double sum) { out[k] = rounded<T>(static_cast<Wide<T>>(sum)); });
}

/// Whether a block per some columns has the most to do at a time: without enough results for a thread each.
bool isTall(const Strided<2> &kept, const Strided<1> &reduced) {
  return kept.count > 1 && kept.isFlat() && kept.count < 1 << 16 && reduced.rank == 1 &&
         reduced.count >= 2 * kColumnBlock / kColumns;
}

template <typename Op, typename Start> const char *reduce(const DsLaunch &l, Start startOf) {
  const DsTensor &x = l.ins[0], &out = l.outs[0];
  const DsAttr &axes = attr(l, "axes");
  bool keepDims = flag(l, "keepdims");
  Strided<2> kept;
  Strided<1> reduced;
  int64_t next = 0;
  int outAxis = 0;
  for (int i = 0; i < x.rank; ++i)
    if (next < axes.count && axes.list[next] == i) {
      ++next;
      reduced.add(x.dims[i], {x.strides[i]});
      outAxis += keepDims;
    } else {
      kept.add(x.dims[i], {out.strides[outAxis++], x.strides[i]});
    }
  if (kept.count == 0)
    return nullptr;
  return Numbers::dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = Accum<T>;
    T *to = elem::dataOf<T>(out);
    const T *from = elem::dataOf<T>(x);
    bool lastIsReduced = reduced.rank > 0 && reduced.strides[0][reduced.rank - 1] == 1;
    if constexpr (std::is_same_v<Op, Sum> && elem::kIsFloat<T>)
      if (isTall(kept, reduced))
        return launch(sumColumnsKernel<T>, gridOfColumns(kept.count), dim3(kColumnBlock), 0,
                      streamOf(l), to, from, reduced.count, reduced.strides[0][0], kept.count);
    if (reduced.count >= 64 && (lastIsReduced || kept.count < 1024))
      return launch(reduceByBlock<Op, T, A>, gridFor(kept.count, 1), dim3(kBlock), 0, streamOf(l),
                    to, from, kept, reduced, startOf(A()));
    return launch(reduceByThread<Op, T, A>, gridFor(kept.count), dim3(kBlock), 0, streamOf(l), to,
                  from, kept, reduced, startOf(A()));
  });
}

} // namespace

const char *reduceSum(const DsLaunch *l, void *) {
  return reduce<Sum>(*l, [](auto v) { return decltype(v)(0); });
}
const char *reduceMax(const DsLaunch *l, void *) {
  return reduce<Max>(*l, [](auto v) {
    using L = std::numeric_limits<decltype(v)>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  });
}
const char *reduceMin(const DsLaunch *l, void *) {
  return reduce<Min>(*l, [](auto v) {
    using L = std::numeric_limits<decltype(v)>;
    return L::has_infinity ? L::infinity() : L::max();
  });
}

} // namespace ds::cuda
