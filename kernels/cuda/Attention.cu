// SPDX-License-Identifier: Apache-2.0
//
// Attention without its T x S matrix: a block takes a tile of queries (for the gradients of k and v: of keys) along all tiles of
// the other, with scores in shared memory. 16 x 16 threads each own every 16th row and column of a tile. Sums are in f32 (f64) in a
// fixed order, and no two blocks write one element: the bits are always the same. 16-bit heads of up to 128 elements go to tensor
// cores, see AttentionMma.cu.
#include "kernels/cuda/Attention.cuh"
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

constexpr int kSide = 16;  // threads of a block along rows, and along columns
constexpr int kChunk = 32; // elements of q, k, v that are in shared memory at once

/// Rows and columns of a tile: as many as shared memory holds.
template <typename V> constexpr int kTileOf = sizeof(V) == 8 ? 32 : 64;

/// Elements of shared memory for two tiles of a chunk's columns, or one of kColumns columns.
template <int kTile, int kColumns>
constexpr int kBufferOf = 2 * kTile *(kChunk + 1) > kChunk *kColumns ? 2 * kTile *(kChunk + 1)
                                                                     : kChunk *kColumns;

/// Rows of one head: element (row, i) lies at row * rowStride + i * step.
template <typename T> struct Rows {
  const T *data;
  int64_t row, step, count, width;
};
template <typename T>
__device__ Rows<T> rowsOf(const T *data, const AttentionAxes &a, int64_t b, int64_t h,
                          int64_t count, int64_t width) {
  return {data + b * a.batch + h * a.head, a.row, a.element, count, width};
}

/// Rows [row, row + count) and columns [column, column + kChunk) of `from`, zeros beyond, with `pad` elements to a row.
template <typename T, typename S>
__device__ void loadTile(S &to, int first, int pad, const Rows<T> &from, int64_t row, int count,
                         int64_t column) {
  for (int i = threadIdx.x; i < count * kChunk; i += kBlock) {
    int64_t r = row + i / kChunk, c = column + i % kChunk;
    to[first + i / kChunk * pad + i % kChunk] = r < from.count && c < from.width
                                                    ? value(from.data[r * from.row + c * from.step])
                                                    : Compute<T>(0);
  }
}

/// acc[i][j] = a row (a0 + ty + 16 i) times b row (b0 + tx + 16 j). All threads meet behind what they did before, also where
/// there are no columns: callers need no barrier of their own. Ends with the buffer still in use.
template <typename T, typename V, typename S, int R>
__device__ void dotTile(V (&acc)[R][R], S &buffer, const Rows<T> &a, int64_t a0, const Rows<T> &b,
                        int64_t b0) {
  constexpr int kTile = R * kSide, kPad = kChunk + 1;
  const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
  DS_UNROLL
  for (int i = 0; i < R; ++i)
    DS_UNROLL
  for (int j = 0; j < R; ++j)
    acc[i][j] = 0;
  for (int64_t d = 0; d == 0 || d < a.width; d += kChunk) {
    __syncthreads(); // what the buffer held is used
    loadTile(buffer, 0, kPad, a, a0, kTile, d);
    loadTile(buffer, kTile * kPad, kPad, b, b0, kTile, d);
    __syncthreads();
    for (int c = 0; c < kChunk; ++c) {
      V x[R], y[R];
      DS_UNROLL
      for (int i = 0; i < R; ++i) {
        x[i] = buffer[(ty + kSide * i) * kPad + c];
        y[i] = buffer[(kTile + tx + kSide * i) * kPad + c];
      }
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        DS_UNROLL
      for (int j = 0; j < R; ++j)
        acc[i][j] += x[i] * y[j];
    }
  }
}

/// acc[i][j] += sum over n of weight(ty + 16 i, n) * from row (row0 + n), column (column0 + tx + 16 j).
template <typename T, typename V, typename S, int R, int C, typename W>
__device__ void addTile(V (&acc)[R][C], S &buffer, const Rows<T> &from, int64_t row0,
                        int64_t column0, W weight) {
  constexpr int kTile = R * kSide, kColumns = C * kSide;
  const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
  for (int n0 = 0; n0 < kTile; n0 += kChunk) {
    __syncthreads(); // what the buffer held is used
    for (int c = 0; c < kColumns; c += kChunk)
      loadTile(buffer, c, kColumns, from, row0 + n0, kChunk, column0 + c);
    __syncthreads();
    for (int n = 0; n < kChunk; ++n) {
      V x[R], y[C];
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        x[i] = weight(ty + kSide * i, n0 + n);
      DS_UNROLL
      for (int j = 0; j < C; ++j)
        y[j] = buffer[n * kColumns + tx + kSide * j];
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        DS_UNROLL
      for (int j = 0; j < C; ++j)
        acc[i][j] += x[i] * y[j];
    }
  }
}

template <typename T, int R, int C> __global__ void attentionKernel(AttentionArgs<T> p) {
  using V = Wide<T>;
  constexpr int kTile = R * kSide, kPad = kTile + 1, kParts = kBlock / kTile;
  constexpr int kBuffer = kBufferOf<kTile, C * kSide>;
  DS_SHARED(V, buffer, kBuffer);
  DS_SHARED(V, scores, kTile * kPad);
  DS_SHARED(V, factors, kTile);
  const AttentionShape &s = p.s;
  const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
  const int row = threadIdx.x / kParts, part = threadIdx.x % kParts; // for statistics
  const V none = -static_cast<V>(INFINITY);
  const int64_t t0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t e0 = static_cast<int64_t>(blockIdx.z) * C * kSide;
  const int64_t keys = s.causal && t0 + kTile < s.keys ? t0 + kTile : s.keys;
  for (int64_t bh = blockIdx.y; bh < s.batch * s.heads; bh += gridDim.y) {
    const int64_t b = bh / s.heads, h = bh % s.heads, g = h / (s.heads / s.groups);
    Rows<T> q = rowsOf(p.q, s.q, b, h, s.queries, s.depth);
    Rows<T> k = rowsOf(p.k, s.k, b, g, s.keys, s.depth),
            v = rowsOf(p.v, s.v, b, g, s.keys, s.width);
    V top = none, sum = 0, o[R][C];
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j)
      o[i][j] = 0;
    for (int64_t j0 = 0; j0 < keys; j0 += kTile) {
      V dots[R][R];
      dotTile(dots, buffer, q, t0, k, j0);
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        DS_UNROLL
      for (int j = 0; j < R; ++j)
        scores[(ty + kSide * i) * kPad + tx + kSide * j] =
            scoreOf(p, dots[i][j], b, h, t0 + ty + kSide * i, j0 + tx + kSide * j);
      __syncthreads();
      V next = top, more = 0;
      for (int c = part; c < kTile; c += kParts)
        next = fmax(next, static_cast<V>(scores[row * kPad + c]));
      for (int lanes = kParts / 2; lanes > 0; lanes /= 2)
        next = fmax(next, __shfl_xor_sync(0xffffffffu, next, lanes));
      const V shift = next == none ? V(0) : next; // nothing is seen yet: all terms are 0, or NaN
      for (int c = part; c < kTile; c += kParts) {
        V e = exp(scores[row * kPad + c] - shift);
        scores[row * kPad + c] = e;
        more += e;
      }
      for (int lanes = kParts / 2; lanes > 0; lanes /= 2)
        more += __shfl_xor_sync(0xffffffffu, more, lanes);
      const V factor = next == top ? V(1) : exp(top - next);
      sum = sum * factor + more;
      top = next;
      if (part == 0)
        factors[row] = factor;
      __syncthreads();
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        DS_UNROLL
      for (int j = 0; j < C; ++j)
        o[i][j] *= factors[ty + kSide * i];
      addTile(o, buffer, v, j0, e0,
              [&](int r, int n) { return static_cast<V>(scores[r * kPad + n]); });
    }
    if (part == 0) {
      factors[row] = sum == 0 ? V(0) : V(1) / sum;
      if (t0 + row < s.queries && blockIdx.z == 0)
        *lseAt(p, b, h, t0 + row) = sum == 0 ? none : top + log(sum);
    }
    __syncthreads();
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j) {
      int64_t t = t0 + ty + kSide * i, e = e0 + tx + kSide * j;
      if (t < s.queries && e < s.width)
        p.out[b * s.o.batch + h * s.o.head + t * s.o.row + e * s.o.element] =
            rounded<T>(o[i][j] * factors[ty + kSide * i]);
    }
  }
}

/// do o of each row of a tile of queries, and its lse: for all threads once they have met.
template <typename T, typename S, int R>
__device__ void loadStatistics(S &delta, S &lse, const AttentionArgs<T> &p, int64_t b, int64_t h,
                               int64_t t0) {
  using V = Wide<T>;
  constexpr int kTile = R * kSide, kParts = kBlock / kTile;
  const int row = threadIdx.x / kParts, part = threadIdx.x % kParts;
  const int64_t t = t0 + row;
  Rows<T> o = rowsOf(p.o, p.s.o, b, h, p.s.queries, p.s.width),
          dO = rowsOf(p.dO, p.dOAxes, b, h, p.s.queries, p.s.width);
  V sum = 0;
  for (int64_t e = part; t < p.s.queries && e < p.s.width; e += kParts)
    sum += static_cast<V>(value(o.data[t * o.row + e * o.step])) *
           value(dO.data[t * dO.row + e * dO.step]);
  for (int lanes = kParts / 2; lanes > 0; lanes /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (part == 0) {
    delta[row] = sum;
    lse[row] = t < p.s.queries ? *lseAt(p, b, h, t) : -static_cast<V>(INFINITY);
  }
}

/// The probability of a score under its row's lse; rows that see nothing have none.
template <typename V> __device__ V probability(V score, V lse) {
  const V none = -static_cast<V>(INFINITY);
  return lse == none || score == none ? V(0) : exp(score - lse);
}

// dq = scale * ds k with ds = p * (do v^T - do o), for a tile of queries.
template <typename T, int R, int C> __global__ void attentionGradQKernel(AttentionArgs<T> p) {
  using V = Wide<T>;
  constexpr int kTile = R * kSide, kPad = kTile + 1;
  constexpr int kBuffer = kBufferOf<kTile, C * kSide>;
  DS_SHARED(V, buffer, kBuffer);
  DS_SHARED(V, slopes, kTile * kPad);
  DS_SHARED(V, delta, kTile);
  DS_SHARED(V, lse, kTile);
  const AttentionShape &s = p.s;
  const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
  const int64_t t0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t d0 = static_cast<int64_t>(blockIdx.z) * C * kSide;
  const int64_t keys = s.causal && t0 + kTile < s.keys ? t0 + kTile : s.keys;
  for (int64_t bh = blockIdx.y; bh < s.batch * s.heads; bh += gridDim.y) {
    const int64_t b = bh / s.heads, h = bh % s.heads, g = h / (s.heads / s.groups);
    Rows<T> q = rowsOf(p.q, s.q, b, h, s.queries, s.depth),
            dO = rowsOf(p.dO, p.dOAxes, b, h, s.queries, s.width);
    Rows<T> k = rowsOf(p.k, s.k, b, g, s.keys, s.depth),
            v = rowsOf(p.v, s.v, b, g, s.keys, s.width);
    V dq[R][C];
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j)
      dq[i][j] = 0;
    loadStatistics<T, decltype(delta), R>(delta, lse, p, b, h, t0);
    for (int64_t j0 = 0; j0 < keys; j0 += kTile) {
      V dots[R][R], grads[R][R];
      dotTile(dots, buffer, q, t0, k, j0);
      dotTile(grads, buffer, dO, t0, v, j0);
      DS_UNROLL
      for (int i = 0; i < R; ++i)
        DS_UNROLL
      for (int j = 0; j < R; ++j) {
        int r = ty + kSide * i, c = tx + kSide * j;
        V prob = probability<V>(scoreOf(p, dots[i][j], b, h, t0 + r, j0 + c), lse[r]);
        slopes[r * kPad + c] = prob == 0 ? V(0) : prob * (grads[i][j] - delta[r]);
      }
      addTile(dq, buffer, k, j0, d0,
              [&](int r, int n) { return static_cast<V>(slopes[r * kPad + n]); });
    }
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j) {
      int64_t t = t0 + ty + kSide * i, d = d0 + tx + kSide * j;
      if (t < s.queries && d < s.depth)
        p.dq[b * p.dqAxes.batch + h * p.dqAxes.head + t * p.dqAxes.row + d * p.dqAxes.element] =
            rounded<T>(dq[i][j] * static_cast<V>(s.scale));
    }
  }
}

// dk = scale * ds^T q and dv = p^T do, over all heads that read a tile of keys.
template <typename T, int R, int C> __global__ void attentionGradKVKernel(AttentionArgs<T> p) {
  using V = Wide<T>;
  constexpr int kTile = R * kSide, kPad = kTile + 1;
  constexpr int kBuffer = kBufferOf<kTile, C * kSide>;
  DS_SHARED(V, buffer, kBuffer);
  DS_SHARED(V, weights, kTile * kPad);
  DS_SHARED(V, delta, kTile);
  DS_SHARED(V, lse, kTile);
  const AttentionShape &s = p.s;
  const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
  const int64_t j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t d0 = static_cast<int64_t>(blockIdx.z) * C * kSide; // of dk and of dv
  const int64_t each = s.heads / s.groups;
  for (int64_t bg = blockIdx.y; bg < s.batch * s.groups; bg += gridDim.y) {
    const int64_t b = bg / s.groups, g = bg % s.groups;
    Rows<T> k = rowsOf(p.k, s.k, b, g, s.keys, s.depth),
            v = rowsOf(p.v, s.v, b, g, s.keys, s.width);
    V dk[R][C], dv[R][C];
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j)
      dk[i][j] = dv[i][j] = 0;
    for (int64_t h = g * each; h < (g + 1) * each; ++h) {
      Rows<T> q = rowsOf(p.q, s.q, b, h, s.queries, s.depth),
              dO = rowsOf(p.dO, p.dOAxes, b, h, s.queries, s.width);
      for (int64_t t0 = s.causal ? j0 : 0; t0 < s.queries; t0 += kTile) {
        V dots[R][R], grads[R][R];
        loadStatistics<T, decltype(delta), R>(delta, lse, p, b, h, t0);
        dotTile(dots, buffer, q, t0, k, j0);
        dotTile(grads, buffer, dO, t0, v, j0);
        DS_UNROLL
        for (int i = 0; i < R; ++i)
          DS_UNROLL
        for (int j = 0; j < R; ++j) {
          int r = ty + kSide * i, c = tx + kSide * j;
          V prob = probability<V>(scoreOf(p, dots[i][j], b, h, t0 + r, j0 + c), lse[r]);
          weights[r * kPad + c] = prob;
          grads[i][j] = prob == 0 ? V(0) : prob * (grads[i][j] - delta[r]);
        }
        auto weight = [&](int r, int n) { return static_cast<V>(weights[n * kPad + r]); };
        addTile(dv, buffer, dO, t0, d0, weight);
        __syncthreads(); // the probabilities are used
        DS_UNROLL
        for (int i = 0; i < R; ++i)
          DS_UNROLL
        for (int j = 0; j < R; ++j)
          weights[(ty + kSide * i) * kPad + tx + kSide * j] = grads[i][j];
        addTile(dk, buffer, q, t0, d0, weight);
      }
    }
    DS_UNROLL
    for (int i = 0; i < R; ++i)
      DS_UNROLL
    for (int j = 0; j < C; ++j) {
      int64_t r = j0 + ty + kSide * i, d = d0 + tx + kSide * j;
      if (r < s.keys && d < s.depth)
        p.dk[b * p.dkAxes.batch + g * p.dkAxes.head + r * p.dkAxes.row + d * p.dkAxes.element] =
            rounded<T>(dk[i][j] * static_cast<V>(s.scale));
      if (r < s.keys && d < s.width)
        p.dv[b * p.dvAxes.batch + g * p.dvAxes.head + r * p.dvAxes.row + d * p.dvAxes.element] =
            rounded<T>(dv[i][j]);
    }
  }
}

/// Tiles of `rows` rows of `heads` heads, and chunks of `width` columns.
dim3 gridOf(int64_t rows, int tile, int64_t heads, int64_t width, int columns) {
  auto parts = [](int64_t n, int64_t each) {
    return static_cast<unsigned>(std::max<int64_t>(1, (n + each - 1) / each));
  };
  return dim3(parts(rows, tile), static_cast<unsigned>(std::min<int64_t>(heads, 65535)),
              parts(width, columns));
}

AttentionAxes lseAxes(const DsTensor &t) { return {t.strides[0], t.strides[1], t.strides[2], 0}; }

template <typename T> void setMask(AttentionArgs<T> &p) {
  const DsTensor *m = p.s.maskTensor;
  p.s.maskTensor = nullptr; // the host's
  if (m && p.s.boolMask)
    p.seen = elem::dataOf<Bool>(*m);
  else if (m)
    p.mask = elem::dataOf<T>(*m);
}

template <typename T, int C> const char *forward(const DsLaunch &l, const AttentionArgs<T> &p) {
  constexpr int R = kTileOf<Wide<T>> / kSide;
  return launch(attentionKernel<T, R, C>,
                gridOf(p.s.queries, R * kSide, p.s.batch * p.s.heads, p.s.width, C * kSide),
                dim3(kBlock), 0, streamOf(l), p);
}

template <typename T, int C> const char *backward(const DsLaunch &l, const AttentionArgs<T> &p) {
  constexpr int R = kTileOf<Wide<T>> / kSide;
  const AttentionShape &s = p.s;
  if (s.queries > 0 && s.heads > 0)
    if (const char *message =
            launch(attentionGradQKernel<T, R, C>,
                   gridOf(s.queries, R * kSide, s.batch * s.heads, s.depth, C * kSide),
                   dim3(kBlock), 0, streamOf(l), p))
      return message;
  if (s.keys == 0 || s.groups == 0)
    return nullptr;
  return launch(
      attentionGradKVKernel<T, R, C>,
      gridOf(s.keys, R * kSide, s.batch * s.groups, std::max(s.depth, s.width), C * kSide),
      dim3(kBlock), 0, streamOf(l), p);
}

} // namespace

const char *attention(const DsLaunch *l, void *) {
  AttentionShape s = attentionShape(*l, 0, l->outs[0], 3);
  if (s.batch == 0 || s.heads == 0 || s.queries == 0)
    return nullptr;
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    AttentionArgs<T> p{};
    p.s = s;
    setMask(p);
    p.q = elem::dataOf<T>(l->ins[0]), p.k = elem::dataOf<T>(l->ins[1]);
    p.v = elem::dataOf<T>(l->ins[2]), p.out = elem::dataOf<T>(l->outs[0]);
    p.lse = elem::dataOf<Wide<T>>(l->outs[1]), p.lseAxes = lseAxes(l->outs[1]);
    if constexpr (kIsHalf<T>)
      if (fitsTensorCores(s))
        return attentionMma(*l, p);
    return s.width <= 4 * kSide ? forward<T, 4>(*l, p) : forward<T, 8>(*l, p);
  });
}

const char *attentionGrad(const DsLaunch *l, void *) {
  AttentionShape s = attentionShape(*l, 1, l->ins[4], 6);
  if (s.batch == 0)
    return nullptr;
  return Floats::dispatch(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    bool rowsFirst = flag(*l, "rows_first");
    AttentionArgs<T> p{};
    p.s = s;
    setMask(p);
    p.dO = elem::dataOf<T>(l->ins[0]), p.q = elem::dataOf<T>(l->ins[1]);
    p.k = elem::dataOf<T>(l->ins[2]), p.v = elem::dataOf<T>(l->ins[3]);
    p.o = elem::dataOf<T>(l->ins[4]);
    p.lse = elem::dataOf<Wide<T>>(l->ins[5]), p.lseAxes = lseAxes(l->ins[5]);
    p.dq = elem::dataOf<T>(l->outs[0]), p.dk = elem::dataOf<T>(l->outs[1]);
    p.dv = elem::dataOf<T>(l->outs[2]);
    p.dOAxes = attentionAxes(l->ins[0], rowsFirst), p.dqAxes = attentionAxes(l->outs[0], rowsFirst);
    p.dkAxes = attentionAxes(l->outs[1], rowsFirst),
    p.dvAxes = attentionAxes(l->outs[2], rowsFirst);
    if constexpr (kIsHalf<T>)
      if (fitsTensorCores(s))
        return attentionGradMma(*l, p);
    return std::max(s.depth, s.width) <= 4 * kSide ? backward<T, 4>(*l, p) : backward<T, 8>(*l, p);
  });
}

} // namespace ds::cuda
