// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by cuBLASLt, and without tensor cores what it does not take (integers, operands without a contiguous axis) or
// where it is missing: tiles in shared memory, f32 (f64, integers: their own type) sums along the inner axis from first to
// last.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/LtMatmul.h"
#include "kernels/cuda/Map.cuh"

#include <new>

namespace ds::cuda {

namespace {

constexpr int kTile = 16;

/// The kernel's parameters.
struct Product {
  int64_t rows, inner, columns;
  int64_t outRow, outColumn, aRow, aInner, bInner, bColumn; // strides
  Strided<3> batch;
};

struct MatmulState {
  MatmulShape shape;
  bool byLibrary = false;
  LtMatmul library;
  std::string note;
};

template <typename T> __global__ void matmulKernel(T *out, const T *a, const T *b, Product s) {
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

static const char *ownMatmul(const DsLaunch &l, const MatmulShape &shape) {
  const DsTensor &out = l.outs[0], &a = l.ins[shape.swapped], &b = l.ins[!shape.swapped];
  Product s = {shape.m,  shape.k,  shape.n,  shape.cm, shape.cn,
               shape.am, shape.ak, shape.bk, shape.bn, {}};
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
  return Numbers::dispatch(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(matmulKernel<T>, grid, dim3(kTile * kTile), 0, streamOf(l), elem::dataOf<T>(out),
                  elem::dataOf<T>(a), elem::dataOf<T>(b), s);
  });
}

const char *matmulPrepare(const DsLaunch *l, void **state) {
  std::unique_ptr<MatmulState> s(new (std::nothrow) MatmulState);
  if (!s)
    return "out of memory";
  if (const char *message = matmulShape(*l, s->shape))
    return message;
  auto type = static_cast<DType>(l->outs[0].dtype);
  const Lt *lt = nullptr;
  if (isFloat(type))
    if (const char *message = findLt(&lt))
      return message;
  if (lt) {
    if (const char *message = s->library.prepare(*lt, s->shape, type, l->workBytes, &s->byLibrary))
      return message;
    if (s->byLibrary)
      if (const char *message = s->library.describe(&s->note))
        return message;
  }
  *state = s.release();
  return nullptr;
}

void matmulDestroy(void *state) { delete static_cast<MatmulState *>(state); }

size_t matmulWork(const DsLaunch *l) { return cudaMatmulWork(*l); }

const char *matmulNote(void *state) {
  const std::string &note = static_cast<MatmulState *>(state)->note;
  return note.empty() ? nullptr : note.c_str();
}

const char *matmul(const DsLaunch *l, void *state) {
  const auto &s = *static_cast<MatmulState *>(state);
  if (!s.byLibrary)
    return ownMatmul(*l, s.shape);
  return s.library.run(l->ins[s.shape.swapped].data, l->ins[!s.shape.swapped].data, l->outs[0].data,
                       l->work, streamOf(*l));
}

} // namespace ds::cuda
