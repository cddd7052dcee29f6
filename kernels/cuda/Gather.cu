// SPDX-License-Identifier: Apache-2.0
//
// gather and its gradient. The gradient is deterministic: every element of the result belongs to one thread, which adds what the
// indices send there in index order. Its work grows with the indices, not with the rows: a vocabulary has many that no token names.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Pack.cuh"

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
  __device__ bool goesTo(int64_t k, int64_t row) const {
    auto i = static_cast<int64_t>(p[k]);
    return i == row || i == row - extent;
  }
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

/// Indices that a block looks at between two barriers.
constexpr int kPiece = 2 * kBlock, kWarps = kBlock / 32;

/// Whether an index before `k` goes to `row`, too. All threads of the block must call it, with `at` as the last call left it.
template <typename I>
__device__ bool isRepeated(const IndexReader<I> &index, int64_t k, int64_t row, int &at) {
  DS_SHARED(int, found, 2 * kWarps); // of this piece, and of the last one
  bool any = false;
  for (int64_t first = 0; first < k && !any; first += kPiece) {
    at ^= kWarps;
    bool mine = false;
    DS_UNROLL
    for (int u = 0; u < kPiece; u += kBlock) {
      const int64_t j = first + u + threadIdx.x;
      mine |= j < k && index.goesTo(j, row);
    }
    const bool own = __ballot_sync(0xffffffffu, mine) != 0;
    if (threadIdx.x % 32 == 0)
      found[at + static_cast<int>(threadIdx.x) / 32] = own;
    __syncthreads(); // what the warps found is there, and that of the piece before the last one is used
    for (int w = 0; w < kWarps; ++w)
      any |= found[at + w] != 0;
  }
  return any;
}

// Rows that no index names are zero already. A block for each index; the first one of those that name a row does the row: it looks
// for the others behind it, piece by piece, and adds theirs in order, kSize columns to a thread.
template <typename T, typename I, int kSize>
__global__ void __launch_bounds__(kBlock)
    gatherGradKernel(T *dx, const T *dy, IndexReader<I> index, Blocks b, bool wide) {
  constexpr int kRounds = kPiece / kBlock;
  DS_SHARED(int, counts, kWarps);
  DS_SHARED(int, found, kPiece);
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int at = 0;
  for (int64_t e = blockIdx.x; e < b.before * b.indices; e += gridDim.x) {
    const int64_t r = e / b.indices, k = e % b.indices, row = index(k);
    if (row < 0 || isRepeated(index, k, row, at))
      continue;
    for (int64_t first = 0; first < b.behind; first += kBlock * kSize) {
      const int64_t c = first + static_cast<int64_t>(threadIdx.x) * kSize;
      Compute<T> sums[kSize] = {};
      for (int64_t k0 = k; k0 < b.indices; k0 += kPiece) {
        // A warp looks at indices side by side, so that warps in order have them in order.
        uint32_t seen[kRounds];
        int mine = 0;
        DS_UNROLL
        for (int u = 0; u < kRounds; ++u) {
          const int64_t j = k0 + (warp * kRounds + u) * 32 + lane;
          seen[u] = __ballot_sync(0xffffffffu, j < b.indices && index.goesTo(j, row));
          mine += __popc(seen[u]);
        }
        if (lane == 0)
          counts[warp] = mine;
        __syncthreads(); // counts are there, and the last piece is added
        int next = 0, count = 0;
        for (int w = 0; w < kWarps; ++w) {
          next += w < warp ? counts[w] : 0;
          count += counts[w];
        }
        DS_UNROLL
        for (int u = 0; u < kRounds; ++u) {
          if (seen[u] >> lane & 1)
            found[next + __popc(seen[u] & ((1u << lane) - 1))] = (warp * kRounds + u) * 32 + lane;
          next += __popc(seen[u]);
        }
        __syncthreads(); // what was found is there
        for (int i = 0; c < b.behind && i < count; ++i) {
          const auto from = packAt<kSize>(dy + (r * b.indices + k0 + found[i]) * b.behind, c, wide);
          DS_UNROLL
          for (int w = 0; w < kSize; ++w)
            sums[w] += value(from.of[w]);
        }
      }
      if (c >= b.behind)
        continue;
      Pack<T, kSize> to;
      DS_UNROLL
      for (int w = 0; w < kSize; ++w)
        to.of[w] = rounded<T>(sums[w]);
      putPack(dx + (r * b.extent + row) * b.behind, c, wide, to);
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
  CUDA_TRY(cudaMemsetAsync(dx.data, 0,
                           static_cast<size_t>(elems(dx) * byteSize(static_cast<DType>(dx.dtype))),
                           streamOf(*l)));
  if (b.indices == 0)
    return nullptr;
  return Floats::dispatch(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return withIndices(*l, b.extent, [&](auto index) {
      using I = std::remove_const_t<std::remove_pointer_t<decltype(index.p)>>;
      constexpr int kSize = Pack<T>::kCount;
      T *to = elem::dataOf<T>(dx);
      const T *from = elem::dataOf<T>(dy);
      const bool packs = b.behind % kSize == 0;
      return launch(packs ? gatherGradKernel<T, I, kSize> : gatherGradKernel<T, I, 1>,
                    gridFor(b.before * b.indices, 1), dim3(kBlock), 0, streamOf(*l), to, from,
                    index, b, isPacked(to) && isPacked(from));
    });
  });
}

} // namespace ds::cuda
