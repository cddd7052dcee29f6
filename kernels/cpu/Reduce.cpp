// SPDX-License-Identifier: Apache-2.0
//
// reduce_sum, reduce_max, reduce_min of f32. After merging axes the operand is [outer, n, inner] with n
// reduced, wherever the reduced axes are neighbours; other patterns are reduced group by group, innermost
// first, through the workspace. Long reductions are cut into parts by shape alone, and the parts added in
// order, so that the threads do not matter.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <algorithm>
#include <limits>

#ifndef DS_CPU_REDUCE_KINDS
#define DS_CPU_REDUCE_KINDS
namespace ds::cpu {
enum class ReduceOp { Sum, Max, Min };
} // namespace ds::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Reduce.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

float reduceRow(ReduceOp op, const float *x, int64_t n) {
  if (op == ReduceOp::Max)
    return rowExtreme<true>(x, n);
  if (op == ReduceOp::Min)
    return rowExtreme<false>(x, n);
  return static_cast<float>(
      rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR { return loadAt(x, i, m, 0); }));
}

/// One partial sum of a long row, in f64.
double partialSum(const float *x, int64_t n) {
  return rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR { return loadAt(x, i, m, 0); });
}

template <class Op>
HWY_INLINE void columns(const Op &op, const float *x, int64_t n, int64_t stride, float *out,
                        int64_t width) {
  const int64_t N = lanes();
  for (int64_t c = 0; c < width; c += N) {
    const int64_t m = width - c < N ? width - c : N;
    VF a = loadAt(x, c, m, 0);
    for (int64_t i = 1; i < n; ++i)
      a = op(a, loadAt(x, i * stride + c, m, 0));
    storeAt(a, out, c, m);
  }
}

/// Columns [0, width) over n rows that are `stride` apart. Sums go eight rows at a time into out, through a
/// second accumulator every 128 rows: few roundings a sum, and eight streams of memory.
void reduceColumns(ReduceOp op, const float *x, int64_t n, int64_t stride, float *out,
                   int64_t width) {
  auto nanOr = [](VF a, VF b, VF r) HWY_ATTR {
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, r));
  };
  if (op == ReduceOp::Max)
    return columns([&](VF a, VF b) HWY_ATTR { return nanOr(a, b, hn::Max(a, b)); }, x, n, stride,
                   out, width);
  if (op == ReduceOp::Min)
    return columns([&](VF a, VF b) HWY_ATTR { return nanOr(a, b, hn::Min(a, b)); }, x, n, stride,
                   out, width);
  constexpr int64_t kTile = 1024;
  HWY_ALIGN float block[kTile];
  const int64_t N = lanes();
  for (int64_t c0 = 0; c0 < width; c0 += kTile) {
    const int64_t w = std::min(kTile, width - c0);
    std::fill_n(out + c0, w, 0.0f);
    for (int64_t from = 0; from < n; from += 128) {
      const int64_t end = std::min(n, from + 128);
      std::fill_n(block, w, 0.0f);
      int64_t r = from;
      for (; r + 8 <= end; r += 8) {
        const float *p = x + r * stride + c0;
        for (int64_t i = 0; i < w; i += N) {
          const int64_t m = w - i < N ? w - i : N;
          VF a = hn::Add(loadAt(p, i, m, 0), loadAt(p + stride, i, m, 0));
          VF b = hn::Add(loadAt(p + 2 * stride, i, m, 0), loadAt(p + 3 * stride, i, m, 0));
          VF c = hn::Add(loadAt(p + 4 * stride, i, m, 0), loadAt(p + 5 * stride, i, m, 0));
          VF d = hn::Add(loadAt(p + 6 * stride, i, m, 0), loadAt(p + 7 * stride, i, m, 0));
          VF s = hn::Add(hn::Add(a, b), hn::Add(c, d));
          storeAt(hn::Add(loadAt(block, i, m, 0), s), block, i, m);
        }
      }
      for (; r < end; ++r)
        map2([](VF a, VF b) HWY_ATTR { return hn::Add(a, b); }, block, x + r * stride + c0, block,
             w);
      map2([](VF a, VF b) HWY_ATTR { return hn::Add(a, b); }, out + c0, block, out + c0, w);
    }
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(reduceRow);
HWY_EXPORT(partialSum);
HWY_EXPORT(reduceColumns);

namespace {
constexpr int64_t kLongRow = 1 << 16; // rows of this length and more are cut into parts
constexpr int64_t kRowParts = 64;
constexpr int64_t kColumnTile = 256; // columns that one thread takes at a time

/// Reduces the middle axis of [outer, n, inner].
struct Stage {
  int64_t outer, n, inner;
  int64_t results() const { return outer * inner; }
};

/// Merges runs of kept and of reduced axes; stages come innermost reduced group first.
int stagesOf(const DsLaunch &l, Stage *stages) {
  const DsTensor &x = l.ins[0];
  const DsAttr &axes = attr(l, "axes");
  bool reduced[kMaxRank] = {};
  for (int64_t i = 0; i < axes.count; ++i)
    reduced[axes.list[i]] = true;
  int count = 0;
  int64_t inner = 1;
  for (int i = x.rank - 1; i >= 0;) {
    int from = i;
    while (from > 0 && reduced[from - 1] == reduced[i])
      --from;
    int64_t n = product(x.dims, from, i + 1);
    if (reduced[i])
      stages[count++] = {product(x.dims, 0, from), n, inner};
    else
      inner *= n;
    i = from - 1;
  }
  if (count == 0)
    stages[count++] = {1, 1, inner};
  return count;
}
} // namespace

template <ReduceOp K> class ReduceKernel {
public:
  static size_t work(const DsLaunch &l) {
    Stage stages[kMaxRank];
    int count = stagesOf(l, stages);
    size_t bytes = alignUp(sizeof(double) * kRowParts);
    for (int i = 0; i + 1 < count; ++i)
      bytes += alignUp(sizeof(float) * static_cast<size_t>(stages[i].results()));
    return bytes;
  }
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireF32(l))
      return message;
    count = stagesOf(l, stages);
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    const float *x = f32(l.ins[0]);
    size_t at = alignUp(sizeof(double) * kRowParts);
    for (int i = 0; i < count; ++i) {
      float *out = i + 1 == count ? f32(l.outs[0]) : workAt<float>(l, at);
      stage(l, stages[i], x, out);
      at += alignUp(sizeof(float) * static_cast<size_t>(stages[i].results()));
      x = out;
    }
    return nullptr;
  }

private:
  static void stage(const DsLaunch &l, const Stage &s, const float *x, float *out) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    if (s.n == 0)
      std::fill_n(out, s.results(), K == ReduceOp::Sum ? 0.0f : K == ReduceOp::Max ? -kInf : kInf);
    else if (s.inner == 1)
      rows(l, s, x, out);
    else
      columnsOf(l, s, x, out);
  }

  static void rows(const DsLaunch &l, const Stage &s, const float *x, float *out) {
    auto row = HWY_DYNAMIC_DISPATCH(reduceRow);
    if (s.n < kLongRow || s.outer >= kRowParts) {
      parallelFor(l.threads, s.outer, s.outer * s.n, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
          out[o] = row(K, x + o * s.n, s.n);
      });
      return;
    }
    auto partial = HWY_DYNAMIC_DISPATCH(partialSum);
    double *parts = workAt<double>(l, 0);
    const int64_t size = (s.n + kRowParts - 1) / kRowParts, used = (s.n + size - 1) / size;
    for (int64_t o = 0; o < s.outer; ++o) {
      const float *p = x + o * s.n;
      parallelFor(l.threads, used, s.n, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          int64_t n = std::min(size, s.n - k * size);
          parts[k] = K == ReduceOp::Sum ? partial(p + k * size, n)
                                        : static_cast<double>(row(K, p + k * size, n));
        }
      });
      double total = parts[0];
      for (int64_t k = 1; k < used; ++k) {
        if (K == ReduceOp::Sum)
          total += parts[k];
        else if (std::isnan(parts[k]) || (K == ReduceOp::Max ? parts[k] > total : parts[k] < total))
          total = parts[k]; // once NaN, total stays: comparisons with it are false
      }
      out[o] = static_cast<float>(total);
    }
  }

  static void columnsOf(const DsLaunch &l, const Stage &s, const float *x, float *out) {
    auto range = HWY_DYNAMIC_DISPATCH(reduceColumns);
    const int64_t tiles = (s.inner + kColumnTile - 1) / kColumnTile;
    parallelFor(
        l.threads, s.outer * tiles, s.outer * s.n * s.inner, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end;) {
            // Neighbouring tiles go together: longer streams, same sums.
            int64_t o = i / tiles, first = i % tiles;
            int64_t last = std::min(tiles, first + (end - i));
            int64_t c0 = first * kColumnTile, c1 = std::min(s.inner, last * kColumnTile);
            range(K, x + o * s.n * s.inner + c0, s.n, s.inner, out + o * s.inner + c0, c1 - c0);
            i += last - first;
          }
        });
  }

  Stage stages[kMaxRank];
  int count = 0;
};

const KernelFns reduceSum = fnsOf<Widen<Dense<ReduceKernel<ReduceOp::Sum>>>>();
const KernelFns reduceMax = fnsOf<Widen<Dense<ReduceKernel<ReduceOp::Max>>>>();
const KernelFns reduceMin = fnsOf<Widen<Dense<ReduceKernel<ReduceOp::Min>>>>();

} // namespace ds::cpu
#endif
