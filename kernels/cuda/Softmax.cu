// SPDX-License-Identifier: Apache-2.0
//
// Softmax along one axis: a block per line.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/SumOfExps.cuh"

namespace ds::cuda {

namespace {

/// The lines along an axis of up to three tensors, and the stride of each along it.
struct Lines {
  Strided<3> at;
  int64_t n = 0, step[3];

  /// Line `k` of tensor `which`.
  template <typename T> __device__ Line<T> of(int which, T *data, const int64_t (&at)[3]) const {
    return {data + at[which], step[which]};
  }
};
/// Whether a line's packs are accesses of 16 bytes.
template <typename T> __device__ bool isWide(const Line<T> &l) {
  return l.step == 1 && isPacked(l.data);
}
Lines linesOf(const DsLaunch &l) {
  const DsTensor &out = l.outs[0], &a = l.ins[0], &b = l.ins[l.numIns - 1];
  int64_t axis = attr(l, "axis").i;
  axis += axis < 0 ? out.rank : 0;
  Lines lines;
  for (int i = 0; i < out.rank; ++i)
    if (i != axis)
      lines.at.add(out.dims[i], {out.strides[i], a.strides[i], b.strides[i]});
  lines.n = out.dims[axis];
  lines.step[0] = out.strides[axis];
  lines.step[1] = a.strides[axis];
  lines.step[2] = b.strides[axis];
  return lines;
}

template <typename T, bool kLog> __global__ void softmaxKernel(T *y, const T *x, Lines lines) {
  using A = Wide<T>;
  const Share share = shareOf<T>(lines.n);
  for (int64_t k = blockIdx.x; k < lines.at.count; k += gridDim.x) {
    int64_t at[3];
    lines.at.offsets(k, at);
    const auto from = lines.of(1, x, at);
    const auto to = lines.of(0, y, at);
    const bool wide = isWide(from) && isWide(to);
    const auto exps = sumOfExps<A>(share, wide, from);
    const A top = exps.top, sum = exps.sum;
    A shift = kLog ? static_cast<A>(log(sum)) : A(0);
    mapRows(
        to, share, wide,
        [&](int64_t, A v) { return kLog ? v - top - shift : static_cast<A>(exp(v - top)) / sum; },
        from);
  }
}

// y * (dy - sum(dy * y)).
template <typename T>
__global__ void softmaxGradKernel(T *dx, const T *dy, const T *y, Lines lines) {
  using A = Wide<T>;
  const Share share = shareOf<T>(lines.n);
  for (int64_t k = blockIdx.x; k < lines.at.count; k += gridDim.x) {
    int64_t at[3];
    lines.at.offsets(k, at);
    const auto grad = lines.of(1, dy, at), probabilities = lines.of(2, y, at);
    const auto to = lines.of(0, dx, at);
    const bool wide = isWide(grad) && isWide(probabilities) && isWide(to);
    A dot = 0;
    readRows(
        share, wide, [&](int64_t, A g, A p) { dot += g * p; }, grad, probabilities);
    dot = overBlock<Sum>(dot);
    mapRows(
        to, share, wide, [&](int64_t, A g, A p) { return p * (g - dot); }, grad, probabilities);
  }
}

template <bool kLog> const char *softmaxOf(const DsLaunch &l) {
  Lines lines = linesOf(l);
  if (lines.at.count == 0 || lines.n == 0)
    return nullptr;
  return Floats::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(softmaxKernel<T, kLog>, gridFor(lines.at.count, 1), dim3(kBlock), 0, streamOf(l),
                  elem::dataOf<T>(l.outs[0]), elem::dataOf<T>(l.ins[0]), lines);
  });
}

} // namespace

const char *softmax(const DsLaunch *l, void *) { return softmaxOf<false>(*l); }
const char *logSoftmax(const DsLaunch *l, void *) { return softmaxOf<true>(*l); }

const char *softmaxGrad(const DsLaunch *l, void *) {
  Lines lines = linesOf(*l);
  if (lines.at.count == 0 || lines.n == 0)
    return nullptr;
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(softmaxGradKernel<T>, gridFor(lines.at.count, 1), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                  elem::dataOf<T>(l->ins[1]), lines);
  });
}

} // namespace ds::cuda
