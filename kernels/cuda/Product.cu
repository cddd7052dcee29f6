// SPDX-License-Identifier: Apache-2.0
//
// The own kernel: tiles in shared memory, f32 (f64, integers: their own type) sums along the inner axis from first to last.
#include "kernels/cuda/Product.h"

#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

constexpr int kTile = 16;

/// The kernel's parameters.
struct Sizes {
  int64_t rows, inner, columns;
  int64_t outRow, outColumn, aRow, aInner, bInner, bColumn, biasRow, biasColumn; // strides
  Strided<3> batch;
  bool adds;
};

template <typename T, typename O>
__global__ void productKernel(O *out, const T *a, const T *b, const T *bias, Sizes s) {
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
      if (i < s.rows && j < s.columns) {
        O &to = out[at[0] + i * s.outRow + j * s.outColumn];
        if (bias)
          sum += value(bias[i * s.biasRow + j * s.biasColumn]);
        to = rounded<O>(s.adds ? sum + value(to) : sum);
      }
    }
  }
}

template <typename T, typename O>
const char *enqueue(const MatmulShape &shape, bool adds, const void *a, const void *b, void *c,
                    const void *bias, int64_t biasStep, cudaStream_t stream) {
  Sizes s = {shape.m,  shape.k,  shape.n, shape.cm, shape.cn, shape.am, shape.ak,
             shape.bk, shape.bn, 0,       biasStep, {},       adds};
  if (shape.swapped)
    std::swap(s.biasRow, s.biasColumn);
  for (int i = 0; i < shape.batchRank; ++i) {
    auto k = static_cast<size_t>(i);
    s.batch.add(shape.batch[k], {shape.batchC[k], shape.batchA[k], shape.batchB[k]});
  }
  if (s.rows == 0 || s.columns == 0 || s.batch.count == 0)
    return nullptr;
  auto tiles = [](int64_t n) { return (n + kTile - 1) / kTile; };
  dim3 grid(static_cast<unsigned>(tiles(s.columns)),
            static_cast<unsigned>(std::min<int64_t>(tiles(s.rows), 65535)),
            static_cast<unsigned>(std::min<int64_t>(s.batch.count, 65535)));
  return launch(productKernel<T, O>, grid, dim3(kTile * kTile), 0, stream, static_cast<O *>(c),
                static_cast<const T *>(a), static_cast<const T *>(b), static_cast<const T *>(bias),
                s);
}

} // namespace

const char *Product::prepare(const MatmulShape &s, const LtTypes &t, size_t workBytes) {
  shape = s;
  types = t;
  const Lt *lt = nullptr;
  if (isFloat(t.in))
    if (const char *message = findLt(&lt))
      return message;
  if (!lt)
    return nullptr;
  if (const char *message = library.prepare(*lt, s, t, workBytes, &byLibrary))
    return message;
  return byLibrary ? library.describe(&text) : nullptr;
}

const char *Product::run(const void *a, const void *b, void *c, void *work, cudaStream_t stream,
                         const void *bias, int64_t biasStep) const {
  if (byLibrary)
    return library.run(a, b, c, work, stream);
  return Numbers::dispatch(static_cast<uint8_t>(types.in), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsHalf<T>)
      if (types.out == DType::F32)
        return enqueue<T, float>(shape, types.adds, a, b, c, bias, biasStep, stream);
    return enqueue<T, T>(shape, types.adds, a, b, c, bias, biasStep, stream);
  });
}

} // namespace ds::cuda
