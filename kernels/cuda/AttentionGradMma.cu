// SPDX-License-Identifier: Apache-2.0
//
// The gradients of attention of 16-bit elements on tensor cores: one kernel for dq, which takes 64 queries along the keys, and one for
// dk and dv, which takes 64 keys along the queries of all heads that read them. Both make scores again and keep all but the
// tiles that they walk along in registers; the next tile is on its way meanwhile. Probabilities and slopes are rounded to 16 bits for
// their products. Nothing is written twice, and sums have one order: the bits are always the same.
#include "kernels/cuda/AttentionMma.cuh"

namespace ds::cuda {

namespace {

constexpr int kKeys = 32; // of a tile, for dq
/// Queries of a tile, for dk and dv, whose sums take most registers.
template <int kD> constexpr int kQueries = kD <= 64 ? 32 : 16;

/// The lse as it makes probabilities: those of a row that sees nothing, or is none, are 0.
template <typename T>
__device__ float lseOf(const AttentionArgs<T> &p, int64_t b, int64_t h, int64_t t) {
  const float lse = t < p.s.queries ? *lseAt(p, b, h, t) : -INFINITY;
  return lse == -INFINITY ? INFINITY : lse;
}
__device__ inline float probability(float score, float lse) {
  return exp2f((score - lse) * kLog2e);
}

/// Products of a lane's two rows, summed over the four lanes that share them.
template <typename T, int kD>
__device__ void rowDots(float (&dots)[2], const uint32_t (&a)[kD / 16][4],
                        const uint32_t (&b)[kD / 16][4]) {
  DS_UNROLL
  for (int i = 0; i < 2; ++i) {
    dots[i] = 0;
    DS_UNROLL
    for (int k = 0; k < kD / 16; ++k)
      DS_UNROLL
    for (int r = i; r < 4; r += 2)
      dots[i] += lowOf<T>(a[k][r]) * lowOf<T>(b[k][r]) + highOf<T>(a[k][r]) * highOf<T>(b[k][r]);
    dots[i] += __shfl_xor_sync(0xffffffffu, dots[i], 1);
    dots[i] += __shfl_xor_sync(0xffffffffu, dots[i], 2);
  }
}

// dq = scale * ds k with ds = p * (do v^T - do o).
template <typename T, int kD>
__global__ void __launch_bounds__(kMmaThreads) attentionGradQMmaKernel(AttentionArgs<T> p) {
  static_assert(2 * kKeys == kMmaTile, "rows of a block are staged where two tiles lie");
  DS_SHARED(uint32_t, ks, 2 * kKeys * kRowWords<kD>);
  DS_SHARED(uint32_t, vs, 2 * kKeys * kRowWords<kD>);
  const AttentionShape &s = p.s;
  const int queries = static_cast<int>(s.queries), tiles = (queries + kMmaTile - 1) / kMmaTile;
  const int t0 = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * kMmaTile;
  const int64_t bh = blockIdx.x / tiles;
  const int64_t b = bh / s.heads, h = bh % s.heads, g = h / (s.heads / s.groups);
  const int keys = static_cast<int>(s.causal && t0 + kMmaTile < s.keys ? t0 + kMmaTile : s.keys);
  const auto k = headRows(p.k, s.k, b, g, s.keys, s.depth),
             v = headRows(p.v, s.v, b, g, s.keys, s.width);
  const int first = t0 + warpRow(), t = first + laneIndex() / 4; // and t + 8
  AsyncCopies copies;
  uint32_t q[kD / 16][4], dO[kD / 16][4];
  float delta[2];
  loadFactor<kD>(dO, vs, headRows(p.dO, p.dOAxes, b, h, s.queries, s.width), t0, copies);
  loadFactor<kD>(q, ks, headRows(p.o, s.o, b, h, s.queries, s.width), t0, copies);
  rowDots<T, kD>(delta, q, dO);
  loadFactor<kD>(q, ks, headRows(p.q, s.q, b, h, s.queries, s.depth), t0, copies);
  const float lse[2] = {lseOf(p, b, h, t), lseOf(p, b, h, t + 8)};
  const float scale = static_cast<float>(s.scale);
  float dq[kD / 8][4] = {};
  auto load = [&](int j0, int to) {
    loadRows<kD, kKeys, kMmaThreads>(ks, to, k, j0, copies);
    loadRows<kD, kKeys, kMmaThreads>(vs, to, v, j0, copies);
  };
  __syncthreads(); // all warps have their factors
  if (keys > 0)
    load(0, 0);
  int at = 0;
  for (int j0 = 0; j0 < keys; j0 += kKeys, at ^= kKeys) {
    copies.wait();
    __syncthreads(); // this tile is there, the last one is used
    if (j0 + kKeys < keys)
      load(j0 + kKeys, at ^ kKeys);
    if (first >= queries || (s.causal && j0 >= first + kMmaRows))
      continue; // nothing to see
    constexpr int kN = kKeys / 8;
    float c[kN][4] = {}, d[kN][4] = {};
    addTimesRows<T, kD>(c, q, ks, at);
    addTimesRows<T, kD>(d, dO, vs, at);
    const bool plain =
        !p.mask && !p.seen && j0 + kKeys <= s.keys && (!s.causal || j0 + kKeys <= first + 1);
    DS_UNROLL
    for (int n = 0; n < kN; ++n)
      DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float score = plain ? c[n][i] * scale
                                : scoreOf(p, c[n][i], b, h, t + i / 2 * 8,
                                          j0 + 8 * n + laneIndex() % 4 * 2 + i % 2);
      c[n][i] = probability(score, lse[i / 2]) * (d[n][i] - delta[i / 2]);
    }
    addTimesColumns<T, kD>(dq, c, ks, at);
  }
  __syncthreads(); // the last tile is used
  storeRows<T, kD>(headRows(p.dq, p.dqAxes, b, h, s.queries, s.depth), t0, ks, dq, {scale, scale});
}

// dk = scale * ds^T q and dv = p^T do, over all heads that read a tile of keys.
template <typename T, int kD>
__global__ void __launch_bounds__(kMmaThreads) attentionGradKVMmaKernel(AttentionArgs<T> p) {
  constexpr int kRows = kQueries<kD>, kN = kRows / 8, kSet = 3 * kRows; // of q, do and o
  DS_SHARED(uint32_t, tile, 2 * kSet * kRowWords<kD>);
  DS_SHARED(float, delta, kRows);
  DS_SHARED(float, lse, kRows);
  const AttentionShape &s = p.s;
  const int keys = static_cast<int>(s.keys), tiles = (keys + kMmaTile - 1) / kMmaTile;
  const int j0 = static_cast<int>(blockIdx.x % tiles) * kMmaTile;
  const int64_t bg = blockIdx.x / tiles, b = bg / s.groups, g = bg % s.groups;
  const int first = j0 + warpRow(), j = first + laneIndex() / 4; // and j + 8
  const float scale = static_cast<float>(s.scale);
  AsyncCopies copies;
  uint32_t k[kD / 16][4], v[kD / 16][4];
  loadFactor<kD>(k, tile, headRows(p.k, s.k, b, g, s.keys, s.depth), j0, copies);
  loadFactor<kD>(v, tile, headRows(p.v, s.v, b, g, s.keys, s.width), j0, copies);
  float dk[kD / 8][4] = {}, dv[kD / 8][4] = {};
  const int begin = s.causal ? j0 : 0, left = static_cast<int>(s.queries) - begin;
  const int steps = left > 0 ? (left + kRows - 1) / kRows : 0; // of a head
  const int each = static_cast<int>(s.heads / s.groups);
  auto load = [&](int step, int to) {
    const int64_t h = g * each + step / steps;
    const int t0 = begin + step % steps * kRows;
    loadRows<kD, kRows, kMmaThreads>(tile, to, headRows(p.q, s.q, b, h, s.queries, s.depth), t0,
                                     copies);
    loadRows<kD, kRows, kMmaThreads>(
        tile, to + kRows, headRows(p.dO, p.dOAxes, b, h, s.queries, s.width), t0, copies);
    loadRows<kD, kRows, kMmaThreads>(tile, to + 2 * kRows,
                                     headRows(p.o, s.o, b, h, s.queries, s.width), t0, copies);
  };
  __syncthreads(); // all warps have their factors
  if (steps * each > 0)
    load(0, 0);
  int at = 0;
  for (int step = 0; step < steps * each; ++step, at = kSet - at) {
    const int64_t h = g * each + step / steps;
    const int t0 = begin + step % steps * kRows;
    copies.wait();
    __syncthreads(); // this tile is there, the last one is used
    if (step + 1 < steps * each)
      load(step + 1, kSet - at);
    constexpr int kParts = kMmaThreads / kRows; // threads of a row
    const int row = static_cast<int>(threadIdx.x) / kParts, part = threadIdx.x % kParts;
    float sum = 0;
    for (int w = part; w < kD / 2; w += kParts) {
      const uint32_t x = tile[(at + kRows + row) * kRowWords<kD> + w],
                     y = tile[(at + 2 * kRows + row) * kRowWords<kD> + w];
      sum += lowOf<T>(x) * lowOf<T>(y) + highOf<T>(x) * highOf<T>(y);
    }
    for (int lanes = kParts / 2; lanes > 0; lanes /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (part == 0) {
      delta[row] = sum;
      lse[row] = lseOf(p, b, h, t0 + row);
    }
    __syncthreads(); // statistics are there
    if (first >= keys || (s.causal && t0 + kRows <= first))
      continue; // nothing to see
    float c[kN][4] = {}, d[kN][4] = {};
    addTimesRows<T, kD>(c, k, tile, at);
    addTimesRows<T, kD>(d, v, tile, at + kRows);
    const bool plain = !p.mask && !p.seen && (!s.causal || t0 + 1 >= first + kMmaRows);
    DS_UNROLL
    for (int n = 0; n < kN; ++n)
      DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * n + laneIndex() % 4 * 2 + i % 2;
      const float score =
          plain ? c[n][i] * scale : scoreOf(p, c[n][i], b, h, t0 + column, j + i / 2 * 8);
      c[n][i] = probability(score, lse[column]);
      d[n][i] = c[n][i] * (d[n][i] - delta[column]);
    }
    addTimesColumns<T, kD>(dv, c, tile, at + kRows);
    addTimesColumns<T, kD>(dk, d, tile, at);
  }
  __syncthreads(); // the last tile is used
  storeRows<T, kD>(headRows(p.dk, p.dkAxes, b, g, s.keys, s.depth), j0, tile, dk, {scale, scale});
  __syncwarp(); // dk's rows are read
  storeRows<T, kD>(headRows(p.dv, p.dvAxes, b, g, s.keys, s.width), j0, tile, dv, {1, 1});
}

} // namespace

template <typename T> const char *attentionGradMma(const DsLaunch &l, const AttentionArgs<T> &p) {
  const AttentionShape &s = p.s;
  return dispatchHeads(s, [&](auto width) -> const char * {
    if (s.queries > 0 && s.heads > 0)
      if (const char *message =
              launch(attentionGradQMmaKernel<T, width>, mmaGrid(s.queries, s.batch * s.heads),
                     dim3(kMmaThreads), 0, streamOf(l), p))
        return message;
    if (s.keys == 0 || s.groups == 0)
      return nullptr;
    return launch(attentionGradKVMmaKernel<T, width>, mmaGrid(s.keys, s.batch * s.groups),
                  dim3(kMmaThreads), 0, streamOf(l), p);
  });
}
template const char *attentionGradMma(const DsLaunch &, const AttentionArgs<BF16> &);
template const char *attentionGradMma(const DsLaunch &, const AttentionArgs<F16> &);

} // namespace ds::cuda
