// SPDX-License-Identifier: Apache-2.0
//
// gather and its gradient. The gradient is deterministic: every element of the result belongs to one thread, which adds what the
// indices send there in index order.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

/// x as [before, extent, behind] around the axis, all row-major; indices flat.
struct Blocks {
  int64_t before = 1, extent = 1, behind = 1, indices = 1;
};

// x: the tensor with the axis.
const char *blocksOf(const DsLaunch &l, const DsTensor &x, Blocks &b) {
  if (const char *message = requireRowMajor(l))
    return message;
  int64_t axis = attr(l, "axis").i;
  axis += axis < 0 ? x.rank : 0;
  for (int i = 0; i < x.rank; ++i)
    (i < axis ? b.before : i == axis ? b.extent : b.behind) *= x.dims[i];
  b.indices = elems(l.ins[1]);
  return nullptr;
}

template <typename I> struct IndexReader {
  const I *p;
  int64_t extent;
  DsFault *fault;
  int32_t id;
  __device__ int64_t operator()(int64_t k) const {
    auto i = static_cast<int64_t>(p[k]);
    if (i < -extent || i >= extent) {
      setFault(fault, id, kBadIndex, i, extent);
      return -1;
    }
    return i < 0 ? i + extent : i;
  }
};

template <typename T, typename I>
__global__ void gatherKernel(T *out, const T *x, IndexReader<I> index, Blocks b) {
  int64_t n = b.before * b.indices * b.behind;
  for (int64_t e = firstIndex(); e < n; e += indexStep()) {
    int64_t c = e % b.behind, k = e / b.behind % b.indices, r = e / b.behind / b.indices;
    int64_t row = index(k);
    if (row >= 0)
      out[e] = x[(r * b.extent + row) * b.behind + c];
  }
}

// A block per row of the result and a thread per column. The block goes through the indices together, in pieces that it keeps in shared memory.
template <typename T, typename I>
__global__ void gatherGradKernel(T *dx, const T *dy, IndexReader<I> index, Blocks b) {
  DS_SHARED(int, piece, kBlock);
  for (int64_t row = blockIdx.x; row < b.before * b.extent; row += gridDim.x) {
    int64_t r = row / b.extent, wanted = row % b.extent;
    for (int64_t first = 0; first < b.behind; first += blockDim.x) {
      int64_t c = first + threadIdx.x;
      Compute<T> sum = 0;
      for (int64_t k0 = 0; k0 < b.indices; k0 += kBlock) {
        int64_t mine = k0 + threadIdx.x;
        __syncthreads();
        piece[threadIdx.x] = mine < b.indices && index(mine) == wanted;
        __syncthreads();
        int64_t count = b.indices - k0 < kBlock ? b.indices - k0 : kBlock;
        for (int64_t k = 0; k < count; ++k)
          if (piece[k] && c < b.behind)
            sum += value(dy[(r * b.indices + k0 + k) * b.behind + c]);
      }
      if (c < b.behind)
        dx[row * b.behind + c] = rounded<T>(sum);
    }
  }
}

template <typename F> const char *withIndices(const DsLaunch &l, int64_t extent, F f) {
  const DsTensor &t = l.ins[1];
  if (static_cast<DType>(t.dtype) == DType::I64)
    return f(IndexReader<int64_t>{elem::dataOf<int64_t>(t), extent, l.fault, l.id});
  return f(IndexReader<int32_t>{elem::dataOf<int32_t>(t), extent, l.fault, l.id});
}

} // namespace

const char *gather(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  Blocks b;
  if (const char *message = blocksOf(*l, x, b))
    return message;
  int64_t n = b.before * b.indices * b.behind;
  if (n == 0)
    return nullptr;
  return elem::dispatchSize(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return withIndices(*l, b.extent, [&](auto index) {
      using I = std::remove_const_t<std::remove_pointer_t<decltype(index.p)>>;
      return launch(gatherKernel<T, I>, gridFor(n), dim3(kBlock), 0, streamOf(*l),
                    elem::dataOf<T>(out), static_cast<const T *>(elem::dataOf<T>(x)), index, b);
    });
  });
}

const char *gatherGrad(const DsLaunch *l, void *) {
  const DsTensor &dx = l->outs[0], &dy = l->ins[0];
  Blocks b;
  if (const char *message = blocksOf(*l, dx, b))
    return message;
  if (elems(dx) == 0)
    return nullptr;
  return Floats::dispatch(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return withIndices(*l, b.extent, [&](auto index) {
      using I = std::remove_const_t<std::remove_pointer_t<decltype(index.p)>>;
      return launch(gatherGradKernel<T, I>, gridFor(b.before * b.extent, 1), dim3(kBlock), 0,
                    streamOf(*l), elem::dataOf<T>(dx), static_cast<const T *>(elem::dataOf<T>(dy)),
                    index, b);
    });
  });
}

} // namespace ds::cuda
