// SPDX-License-Identifier: Apache-2.0
//
// attention and its gradient: block by block of queries and keys, whose scores never leave the cache. Forward keeps each row's
// largest score and sum so far and scales what it has when a larger one comes; backward computes the scores again. One task is a
// head (backward: a head of k and v with all that read it), so that the number of threads changes no bit.
#include "kernels/cpu/Attention.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Attention.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

constexpr float kNone = -__builtin_inff();

/// out[c][r] = in[r][c] for n rows; columns of out behind them are zero.
static void transposeRows(const float *in, int64_t pad, int64_t n, int64_t columns, float *out) {
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out[c * kAttentionScores + r] = in[r * pad + c];
  for (int64_t c = 0; c < columns; ++c)
    std::fill(out + c * kAttentionScores + n, out + c * kAttentionScores + padded(n), 0.0f);
}

/// Scores of a row from the product on: adds the mask. The first n count.
static void addMask(float *scores, const float *mask, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes())
    storeAt(hn::Add(loadAt(scores, i, lanes(), 0), loadAt(mask, i, lanes(), 0)), scores, i,
            lanes());
}

/// scores = e^(scores - top), and zeros behind the first n; returns their sum.
static float exponentials(float *scores, float top, int64_t n, int64_t all) {
  const int64_t N = lanes();
  const VF shift = set(top);
  VF sum = set(0);
  for (int64_t i = 0; i < all; i += N) {
    VF e = set(0);
    if (i < n)
      e = expOf(hn::Sub(loadAt(scores, i, std::min(N, n - i), kNone), shift));
    sum = hn::Add(sum, e);
    storeAt(e, scores, i, N);
  }
  return static_cast<float>(sumLanes(sum));
}

static float largest(const float *x, float top, int64_t n) {
  const int64_t N = lanes();
  F32 d;
  VF m = set(top);
  for (int64_t i = 0; i < n; i += N)
    m = hn::Max(m, loadAt(x, i, std::min(N, n - i), kNone));
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(m, d, buffer);
  for (int64_t k = 0; k < N; ++k)
    top = std::max(top, buffer[k]);
  return top;
}

static void scaleRow(float *x, float factor, int64_t n) {
  map1([&](VF v) HWY_ATTR { return hn::Mul(v, set(factor)); }, x, x, n);
}

/// One row of a block: its probabilities so far, and the row of o made smaller where a larger score has come.
static void forwardRow(float *scores, float &top, float &sum, float *o, int64_t width, int64_t n,
                       int64_t all) {
  const float next = largest(scores, top, n);
  if (next != top) {
    const float factor = std::exp(top - next);
    sum *= factor;
    scaleRow(o, factor, width);
    top = next;
  }
  // Where nothing is seen yet, all terms are 0, or NaN.
  sum += exponentials(scores, next == kNone ? 0 : next, n, all);
}

/// Keys [0, n) of a block from key k0 on, for queries [r, end).
struct Block {
  int64_t k0, r, end, keys;
  int64_t seen(const AttentionShape &s, int64_t t) const { return std::min(keys, s.seen(t) - k0); }
};

/// f(block) for the blocks of queries that see any of the keys [k0, k0 + n).
template <class F>
static void queryBlocks(const AttentionShape &s, int64_t k0, int64_t n, const F &f) {
  for (int64_t r = s.causal ? std::min(k0, s.queries) : 0; r < s.queries; r += kAttentionQueries) {
    const int64_t end = std::min(s.queries, r + kAttentionQueries);
    f(Block{k0, r, end, s.causal ? std::min(n, end - k0) : n});
  }
}

void attentionForward(const AttentionTask &t, int64_t b, int64_t h, float *work) {
  const AttentionShape &s = t.s;
  FloatBuffers buffers(work);
  const ForwardBuffers f = ForwardBuffers::take(s, buffers);
  const int64_t depth = attentionPad(s.depth), width = attentionPad(s.width), g = s.groupOf(h);
  loadRows(t, t.q, s.q, b, h, 0, s.queries, s.depth, static_cast<float>(s.scale), f.q);
  std::fill_n(f.o, s.queries * width, 0.0f);
  std::fill_n(f.top, s.queries, kNone);
  std::fill_n(f.sum, s.queries, 0.0f);
  for (int64_t k0 = 0; k0 < s.keys; k0 += kAttentionKeys) {
    const int64_t n = std::min(kAttentionKeys, s.keys - k0);
    loadRows(t, t.k, s.k, b, g, k0, n, s.depth, 1, f.rows);
    transposeRows(f.rows, depth, n, s.depth, f.kt);
    loadRows(t, t.v, s.v, b, g, k0, n, s.width, 1, f.v);
    queryBlocks(s, k0, n, [&](const Block &block) HWY_ATTR {
      const int64_t rows = block.end - block.r, all = padded(block.keys);
      tiles({f.q + block.r * depth, depth, 1}, rows, f.kt, kAttentionScores, s.depth, block.keys,
            f.scores, kAttentionScores, false);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t q = block.r + i, seen = block.seen(s, q);
        float *scores = f.scores + i * kAttentionScores;
        if (s.maskTensor) {
          loadMask(s, b, h, q, k0, seen, f.mask);
          addMask(scores, f.mask, seen);
        }
        forwardRow(scores, f.top[q], f.sum[q], f.o + q * width, s.width, seen, all);
      }
      tiles({f.scores, kAttentionScores, 1}, rows, f.v, width, block.keys, s.width,
            f.o + block.r * width, width, true);
    });
  }
  for (int64_t q = 0; q < s.queries; ++q) {
    const bool sees = f.sum[q] != 0; // NaN, too
    scaleRow(f.o + q * width, sees ? 1 / f.sum[q] : 0, s.width);
    t.lse[t.lseAt(b, h, q)] = sees ? f.top[q] + std::log(f.sum[q]) : kNone;
  }
  storeRows(t, t.out, s.o, b, h, 0, s.queries, s.width, f.o);
}

/// scores become probabilities, slopes (do v^T) the gradient of the scores; zeros behind the first n.
static void backwardRow(float *scores, float *slopes, float lse, float delta, int64_t n,
                        int64_t all) {
  const int64_t N = lanes();
  const bool sees = lse != kNone;
  for (int64_t i = 0; i < all; i += N) {
    VF p = set(0), ds = p;
    if (i < n && sees) {
      p = expOf(hn::Sub(loadAt(scores, i, std::min(N, n - i), kNone), set(lse)));
      ds = hn::Mul(p, hn::Sub(loadAt(slopes, i, N, 0), set(delta)));
    }
    storeAt(p, scores, i, N);
    storeAt(ds, slopes, i, N);
  }
}

static void backwardHead(const AttentionTask &t, int64_t b, int64_t h, const BackwardBuffers &f) {
  const AttentionShape &s = t.s;
  const int64_t depth = attentionPad(s.depth), width = attentionPad(s.width), g = s.groupOf(h);
  loadRows(t, t.q, s.q, b, h, 0, s.queries, s.depth, static_cast<float>(s.scale), f.q);
  loadRows(t, t.dO, t.dOAxes, b, h, 0, s.queries, s.width, 1, f.dO);
  std::fill_n(f.dq, s.queries * depth, 0.0f);
  for (int64_t q = 0; q < s.queries; ++q) {
    loadRows(t, t.o, s.o, b, h, q, 1, s.width, 1, f.o);
    const float *dO = f.dO + q * width;
    f.delta[q] = static_cast<float>(rowSum(s.width, [&](int64_t i, int64_t m) HWY_ATTR {
      return hn::Mul(loadAt(f.o, i, m, 0), loadAt(dO, i, m, 0));
    }));
  }
  for (int64_t k0 = 0; k0 < s.keys; k0 += kAttentionKeys) {
    const int64_t n = std::min(kAttentionKeys, s.keys - k0);
    loadRows(t, t.k, s.k, b, g, k0, n, s.depth, 1, f.k);
    transposeRows(f.k, depth, n, s.depth, f.kt);
    loadRows(t, t.v, s.v, b, g, k0, n, s.width, 1, f.v);
    transposeRows(f.v, width, n, s.width, f.vt);
    queryBlocks(s, k0, n, [&](const Block &block) HWY_ATTR {
      const int64_t rows = block.end - block.r, all = padded(block.keys);
      const float *q = f.q + block.r * depth, *dO = f.dO + block.r * width;
      tiles({q, depth, 1}, rows, f.kt, kAttentionScores, s.depth, block.keys, f.scores,
            kAttentionScores, false);
      tiles({dO, width, 1}, rows, f.vt, kAttentionScores, s.width, block.keys, f.slopes,
            kAttentionScores, false);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t r = block.r + i, seen = block.seen(s, r);
        float *scores = f.scores + i * kAttentionScores;
        if (s.maskTensor) {
          loadMask(s, b, h, r, k0, seen, f.mask);
          addMask(scores, f.mask, seen);
        }
        backwardRow(scores, f.slopes + i * kAttentionScores, t.lse[t.lseAt(b, h, r)], f.delta[r],
                    seen, all);
      }
      tiles({f.scores, 1, kAttentionScores}, block.keys, dO, width, rows, s.width,
            f.dv + k0 * width, width, true);
      tiles({f.slopes, 1, kAttentionScores}, block.keys, q, depth, rows, s.depth, f.dk + k0 * depth,
            depth, true);
      tiles({f.slopes, kAttentionScores, 1}, rows, f.k, depth, block.keys, s.depth,
            f.dq + block.r * depth, depth, true);
    });
  }
  for (int64_t q = 0; q < s.queries; ++q)
    scaleRow(f.dq + q * depth, static_cast<float>(s.scale), s.depth);
  storeRows(t, t.dq, t.dqAxes, b, h, 0, s.queries, s.depth, f.dq);
}

void attentionBackward(const AttentionTask &t, int64_t b, int64_t g, float *work) {
  const AttentionShape &s = t.s;
  FloatBuffers buffers(work);
  const BackwardBuffers f = BackwardBuffers::take(s, buffers);
  std::fill_n(f.dk, s.keys * attentionPad(s.depth), 0.0f);
  std::fill_n(f.dv, s.keys * attentionPad(s.width), 0.0f);
  const int64_t each = s.heads / s.groups;
  for (int64_t h = g * each; h < (g + 1) * each; ++h)
    backwardHead(t, b, h, f);
  storeRows(t, t.dk, t.dkAxes, b, g, 0, s.keys, s.depth, f.dk);
  storeRows(t, t.dv, t.dvAxes, b, g, 0, s.keys, s.width, f.dv);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(attentionForward);
HWY_EXPORT(attentionBackward);

void loadRows(const AttentionTask &t, const void *data, const AttentionAxes &a, int64_t b,
              int64_t h, int64_t row, int64_t n, int64_t width, float factor, float *out) {
  const int64_t pad = attentionPad(width);
  for (int64_t r = 0; r < n; ++r, out += pad) {
    const int64_t at = b * a.batch + h * a.head + (row + r) * a.row;
    for (int64_t i = 0; i < width; i += FloatPort::kBlock)
      t.port.load(data, at + i * a.element, a.element, std::min(FloatPort::kBlock, width - i),
                  out + i);
    for (int64_t i = 0; factor != 1 && i < width; ++i)
      out[i] *= factor;
    std::fill(out + width, out + pad, 0.0f);
  }
}

void storeRows(const AttentionTask &t, void *data, const AttentionAxes &a, int64_t b, int64_t h,
               int64_t row, int64_t n, int64_t width, const float *x) {
  const int64_t pad = attentionPad(width);
  for (int64_t r = 0; r < n; ++r, x += pad)
    for (int64_t i = 0; i < width; i += FloatPort::kBlock)
      t.port.store(x + i, data, b * a.batch + h * a.head + (row + r) * a.row + i * a.element,
                   a.element, std::min(FloatPort::kBlock, width - i));
}

void loadMask(const AttentionShape &s, int64_t b, int64_t h, int64_t t, int64_t from, int64_t n,
              float *out) {
  const DsTensor &mask = *s.maskTensor;
  const int64_t at = b * s.mask.batch + h * s.mask.head + t * s.mask.row + from * s.mask.element;
  if (s.boolMask)
    for (int64_t i = 0; i < n; ++i)
      out[i] = ptr<uint8_t>(mask)[at + i * s.mask.element] ? 0.0f : -INFINITY;
  else
    FloatPort(mask).load(mask.data, at, s.mask.element, n, out);
  std::fill(out + n, out + attentionPad(n), 0.0f);
}

namespace {

/// Runs tasks in as many parts as there are threads, each with a workspace of its own.
template <class F>
void runParts(const DsLaunch &l, int64_t tasks, int64_t each, int64_t elems, F f) {
  const int64_t parts = std::max(l.threads, 1);
  parallelFor(l.threads, parts, elems, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t task = tasks * p / parts; task < tasks * (p + 1) / parts; ++task)
        f(task, workAt<float>(l, sizeof(float) * static_cast<size_t>(p * each)));
  });
}

template <class Buffers> int64_t floatsFor(const AttentionShape &s) {
  FloatBuffers count(nullptr);
  Buffers::take(s, count);
  return count.used;
}

class Attention {
public:
  static size_t work(const DsLaunch &l) {
    return sizeof(float) *
           static_cast<size_t>(std::max(l.threads, 1) *
                               floatsFor<ForwardBuffers>(attentionShape(l, 0, l.outs[0], 3)));
  }
  const char *prepare(const DsLaunch &l) {
    t.s = attentionShape(l, 0, l.outs[0], 3);
    t.port = FloatPort(l.ins[0]);
    each = floatsFor<ForwardBuffers>(t.s);
    if (l.workBytes < work(l))
      return "the plan's workspace is smaller than this kernel needs";
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    t.q = l.ins[0].data, t.k = l.ins[1].data, t.v = l.ins[2].data;
    t.out = l.outs[0].data, t.lse = f32(l.outs[1]), t.lseStrides = l.outs[1].strides;
    t.s.maskTensor = l.numIns > 3 ? &l.ins[3] : nullptr;
    auto forward = HWY_DYNAMIC_DISPATCH(attentionForward);
    const AttentionShape &s = t.s;
    runParts(l, s.batch * s.heads, each, s.batch * s.heads * s.queries * (s.keys + s.depth),
             [&](int64_t task, float *work) { forward(t, task / s.heads, task % s.heads, work); });
    return nullptr;
  }

private:
  AttentionTask t{};
  int64_t each = 0;
};

class AttentionGrad {
public:
  static size_t work(const DsLaunch &l) {
    return sizeof(float) *
           static_cast<size_t>(std::max(l.threads, 1) *
                               floatsFor<BackwardBuffers>(attentionShape(l, 1, l.ins[4], 6)));
  }
  const char *prepare(const DsLaunch &l) {
    bool rowsFirst = flag(l, "rows_first");
    t.s = attentionShape(l, 1, l.ins[4], 6);
    t.port = FloatPort(l.ins[1]);
    t.dOAxes = attentionAxes(l.ins[0], rowsFirst);
    t.dqAxes = attentionAxes(l.outs[0], rowsFirst);
    t.dkAxes = attentionAxes(l.outs[1], rowsFirst);
    t.dvAxes = attentionAxes(l.outs[2], rowsFirst);
    each = floatsFor<BackwardBuffers>(t.s);
    if (l.workBytes < work(l))
      return "the plan's workspace is smaller than this kernel needs";
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    t.dO = l.ins[0].data, t.q = l.ins[1].data, t.k = l.ins[2].data, t.v = l.ins[3].data;
    t.o = l.ins[4].data, t.lse = f32(l.ins[5]), t.lseStrides = l.ins[5].strides;
    t.dq = l.outs[0].data, t.dk = l.outs[1].data, t.dv = l.outs[2].data;
    t.s.maskTensor = l.numIns > 6 ? &l.ins[6] : nullptr;
    auto backward = HWY_DYNAMIC_DISPATCH(attentionBackward);
    const AttentionShape &s = t.s;
    runParts(
        l, s.batch * s.groups, each, s.batch * s.heads * s.queries * (s.keys + s.depth),
        [&](int64_t task, float *work) { backward(t, task / s.groups, task % s.groups, work); });
    return nullptr;
  }

private:
  AttentionTask t{};
  int64_t each = 0;
};

} // namespace

const KernelFns attention = fnsOf<Attention>();
const KernelFns attentionGrad = fnsOf<AttentionGrad>();

} // namespace ds::cpu
#endif
