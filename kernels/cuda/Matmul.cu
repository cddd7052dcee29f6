// SPDX-License-Identifier: Apache-2.0
//
// Matrix products without tensor cores, for what cuBLASLt does not take: tiles in shared memory, f32 (f64, integers: their own
// type) sums along the inner axis from first to last.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

constexpr int kTile = 16;

struct MatmulShape {
  int64_t rows, inner, columns;
  int64_t outRow, outColumn, aRow, aInner, bInner, bColumn; // strides
  Strided<3> batch;
};

template <typename T> __global__ void matmulKernel(T *out, const T *a, const T *b, MatmulShape s) {
  using V = Compute<T>;
  DS_SHARED(V, left, kTile * kTile);
  DS_SHARED(V, right, kTile * kTile);
  const int ty = threadIdx.x / kTile, tx = threadIdx.x % kTile;
  for (int64_t n = blockIdx.z; n < s.batch.count; n += gridDim.z) {
    int64_t at[3];
    s.batch.offsets(n, at);
    for (int64_t i0 = static_cast<int64_t>(blockIdx.y) * kTile; i0 < s.rows;
         i0 += static_cast<int64_t>(gridDim.y) * kTile) {
      int64_t i = i0 + ty, j = static_cast<int64_t>(blockIdx.x) * kTile + tx;
      V sum = 0;
      for (int64_t k0 = 0; k0 < s.inner; k0 += kTile) {
        int64_t ka = k0 + tx, kb = k0 + ty;
        __syncthreads(); // the last tiles are used
        left[threadIdx.x] =
            i < s.rows && ka < s.inner ? value(a[at[1] + i * s.aRow + ka * s.aInner]) : V(0);
        right[threadIdx.x] =
            kb < s.inner && j < s.columns ? value(b[at[2] + kb * s.bInner + j * s.bColumn]) : V(0);
        __syncthreads();
        for (int k = 0; k < kTile; ++k)
          sum += left[ty * kTile + k] * right[k * kTile + tx];
      }
      if (i < s.rows && j < s.columns)
        out[at[0] + i * s.outRow + j * s.outColumn] = rounded<T>(sum);
    }
  }
}

} // namespace

const char *matmul(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &a = l->ins[0], &b = l->ins[1];
  bool transA = flag(*l, "trans_a"), transB = flag(*l, "trans_b");
  MatmulShape s;
  s.rows = out.dims[out.rank - 2], s.columns = out.dims[out.rank - 1];
  s.inner = a.dims[a.rank - (transA ? 2 : 1)];
  s.outRow = out.strides[out.rank - 2], s.outColumn = out.strides[out.rank - 1];
  s.aRow = a.strides[a.rank - 2], s.aInner = a.strides[a.rank - 1];
  s.bInner = b.strides[b.rank - 2], s.bColumn = b.strides[b.rank - 1];
  if (transA)
    std::swap(s.aRow, s.aInner);
  if (transB)
    std::swap(s.bInner, s.bColumn);
  DsTensor outBatch = out, aBatch = a, bBatch = b; // batch axes broadcast
  outBatch.rank -= 2, aBatch.rank -= 2, bBatch.rank -= 2;
  s.batch = stridedOf(outBatch, aBatch, bBatch);
  if (s.rows == 0 || s.columns == 0 || s.batch.count == 0)
    return nullptr;
  auto tiles = [](int64_t n) { return (n + kTile - 1) / kTile; };
  dim3 grid(static_cast<unsigned>(tiles(s.columns)),
            static_cast<unsigned>(std::min<int64_t>(tiles(s.rows), 65535)),
            static_cast<unsigned>(std::min<int64_t>(s.batch.count, 65535)));
  return Numbers::dispatch(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(matmulKernel<T>, grid, dim3(kTile * kTile), 0, streamOf(*l), elem::dataOf<T>(out),
                  elem::dataOf<T>(a), elem::dataOf<T>(b), s);
  });
}

} // namespace ds::cuda
