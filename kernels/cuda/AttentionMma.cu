// SPDX-License-Identifier: Apache-2.0
//
// Attention of 16-bit elements on tensor cores: a block takes 64 queries of a head along tiles of 64 keys. Scores, probabilities and
// sums stay in registers; a warp owns whole rows of them. While it computes scores, the tile of v is on its way, and behind
// them the next one of k. Probabilities are rounded to 16 bits for their product with v.
#include "kernels/cuda/AttentionMma.cuh"

namespace ds::cuda {

namespace {

/// A lane's two rows, g and g + 8: the highest score so far, and its part of the sum of exponentials under it.
struct RowSums {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
};

/// Combined over the four lanes that share a row.
__device__ inline float maxOfRow(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ inline float sumOfRow(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/// Scores to exponentials, and what has been summed so far to the new highest score.
template <int kN, int kO>
__device__ void exponentials(float (&c)[kN][4], float (&o)[kO][4], RowSums &rows) {
  DS_UNROLL
  for (int i = 0; i < 2; ++i) {
    float next = rows.top[i], more = 0;
    DS_UNROLL
    for (int n = 0; n < kN; ++n)
      next = fmaxf(next, fmaxf(c[n][2 * i], c[n][2 * i + 1]));
    next = maxOfRow(next);
    const float shift =
        next == -INFINITY ? 0 : next; // nothing is seen yet: all terms are 0, or NaN
    const float factor = next == rows.top[i] ? 1 : exp2f((rows.top[i] - next) * kLog2e);
    DS_UNROLL
    for (int n = 0; n < kN; ++n)
      DS_UNROLL
    for (int k = 2 * i; k < 2 * i + 2; ++k)
      more += c[n][k] = exp2f((c[n][k] - shift) * kLog2e);
    DS_UNROLL
    for (int n = 0; n < kO; ++n)
      DS_UNROLL
    for (int k = 2 * i; k < 2 * i + 2; ++k)
      o[n][k] *= factor;
    rows.sum[i] = rows.sum[i] * factor + more;
    rows.top[i] = next;
  }
}

template <typename T, int kD>
__global__ void __launch_bounds__(kMmaThreads) attentionMmaKernel(AttentionArgs<T> p) {
  DS_SHARED(uint32_t, ks, kMmaTile * kRowWords<kD>);
  DS_SHARED(uint32_t, vs, kMmaTile * kRowWords<kD>);
  const AttentionShape &s = p.s;
  const int queries = static_cast<int>(s.queries), tiles = (queries + kMmaTile - 1) / kMmaTile;
  // With a causal mask the last tiles take longest: they come first.
  const int t0 = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * kMmaTile;
  const int64_t bh = blockIdx.x / tiles;
  const int64_t b = bh / s.heads, h = bh % s.heads, g = h / (s.heads / s.groups);
  const int keys = static_cast<int>(s.causal && t0 + kMmaTile < s.keys ? t0 + kMmaTile : s.keys);
  const auto q = headRows(p.q, s.q, b, h, s.queries, s.depth),
             k = headRows(p.k, s.k, b, g, s.keys, s.depth),
             v = headRows(p.v, s.v, b, g, s.keys, s.width);
  const bool idle = t0 + warpRow() >= queries;
  const int t = t0 + warpRow() + laneIndex() / 4; // and t + 8
  const float scale = static_cast<float>(s.scale);
  AsyncCopies copies;
  uint32_t factor[kD / 16][4];
  loadFactor<kD>(factor, vs, q, t0, copies);
  float o[kD / 8][4] = {};
  RowSums rows;
  if (keys > 0)
    loadRows<kD, kMmaTile, kMmaThreads>(ks, 0, k, 0, copies);
  for (int j0 = 0; j0 < keys; j0 += kMmaTile) {
    copies.wait();
    __syncthreads(); // the tile of k is there, that of v is used
    loadRows<kD, kMmaTile, kMmaThreads>(vs, 0, v, j0, copies);
    constexpr int kN = kMmaTile / 8;
    float c[kN][4] = {};
    if (!idle)
      addTimesRows<T, kD>(c, factor, ks, 0);
    copies.wait();
    __syncthreads(); // the tile of v is there, that of k is used
    if (j0 + kMmaTile < keys)
      loadRows<kD, kMmaTile, kMmaThreads>(ks, 0, k, j0 + kMmaTile, copies);
    if (idle)
      continue;
    const bool plain = !p.mask && !p.seen && j0 + kMmaTile <= s.keys &&
                       (!s.causal || j0 + kMmaTile <= t0 + warpRow() + 1);
    DS_UNROLL
    for (int n = 0; n < kN; ++n)
      DS_UNROLL
    for (int i = 0; i < 4; ++i)
      c[n][i] = plain ? c[n][i] * scale
                      : scoreOf(p, c[n][i], b, h, t + i / 2 * 8,
                                j0 + 8 * n + laneIndex() % 4 * 2 + i % 2);
    exponentials(c, o, rows);
    addTimesColumns<T, kD>(o, c, vs, 0);
  }
  if (idle)
    return;
  float inverse[2];
  DS_UNROLL
  for (int i = 0; i < 2; ++i) {
    const float sum = sumOfRow(rows.sum[i]);
    inverse[i] = sum == 0 ? 0 : 1 / sum;
    if (laneIndex() % 4 == 0 && t + 8 * i < queries)
      *lseAt(p, b, h, t + 8 * i) = sum == 0 ? -INFINITY : rows.top[i] + logf(sum);
  }
  storeRows<T, kD>(headRows(p.out, s.o, b, h, s.queries, s.width), t0, ks, o, inverse);
}

} // namespace

template <typename T> const char *attentionMma(const DsLaunch &l, const AttentionArgs<T> &p) {
  return dispatchHeads(p.s, [&](auto width) {
    return launch(attentionMmaKernel<T, width>, mmaGrid(p.s.queries, p.s.batch * p.s.heads),
                  dim3(kMmaThreads), 0, streamOf(l), p);
  });
}
template const char *attentionMma(const DsLaunch &, const AttentionArgs<BF16> &);
template const char *attentionMma(const DsLaunch &, const AttentionArgs<F16> &);

} // namespace ds::cuda
