// SPDX-License-Identifier: Apache-2.0
//
// cross_entropy and mse with their gradients. A row's log-sum-exp is kept in f64 until the loss is summed, in
// row order; squared errors are summed in f64 over fixed chunks.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Loss.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

float largestOf(const float *x, int64_t n) { return rowExtreme<true>(x, n); }

double sumExp(const float *x, float top, int64_t n) {
  const VF v = set(top);
  return rowSum(n, [&](int64_t i, int64_t m)
                       HWY_ATTR { return expOf(hn::Sub(loadAt(x, i, m, -1.0f / 0.0f), v)); });
}

/// out = exp(x - lse) * scale
void scaledExp(const float *x, float lse, float scale, float *out, int64_t n) {
  const VF l = set(lse), s = set(scale);
  map1([&](VF v) HWY_ATTR { return hn::Mul(expOf(hn::Sub(v, l)), s); }, x, out, n);
}

double squaredError(const float *a, const float *b, int64_t n) {
  return rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
    VF d = hn::Sub(loadAt(a, i, m, 0), loadAt(b, i, m, 0));
    return hn::Mul(d, d);
  });
}

void scaledDifference(const float *a, const float *b, float scale, float *out, int64_t n) {
  const VF s = set(scale);
  map2([&](VF p, VF t) HWY_ATTR { return hn::Mul(hn::Sub(p, t), s); }, a, b, out, n);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(largestOf);
HWY_EXPORT(sumExp);
HWY_EXPORT(scaledExp);
HWY_EXPORT(squaredError);
HWY_EXPORT(scaledDifference);

static const char *const kBadLabel = "a label is not a class and not ignore_index";

/// Rows, classes and labels, common to both directions.
class Classes {
protected:
  const char *init(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    if (!isNarrowFloat(x))
      return "the cpu kernel needs logits of f32, bf16 or f16";
    port = FloatPort(x);
    rows = product(x.dims, 0, x.rank - 1);
    n = x.dims[x.rank - 1];
    wide = is(l.ins[1], DType::I64);
    ignore = attr(l, "ignore_index").i;
    return nullptr;
  }
  int64_t label(const DsLaunch &l, int64_t row) const {
    return wide ? ptr<int64_t>(l.ins[1])[row] : ptr<int32_t>(l.ins[1])[row];
  }
  bool isClass(int64_t v) const { return v >= 0 && v < n; }
  /// f(block, first, m) for the blocks of a row of logits, as f32.
  template <class F> void forBlocks(const DsLaunch &l, int64_t row, const F &f) const {
    if (port.isF32())
      return f(cpu::f32(l.ins[0]) + row * n, int64_t{0}, n);
    float block[FloatPort::kBlock];
    for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
      int64_t m = std::min(FloatPort::kBlock, n - i);
      port.load(l.ins[0].data, row * n + i, 1, m, block);
      f(block, i, m);
    }
  }
  float logit(const DsLaunch &l, int64_t row, int64_t k) const {
    float x;
    port.load(l.ins[0].data, row * n + k, 1, 1, &x);
    return x;
  }
  FloatPort port;
  int64_t rows = 0, n = 0, ignore = 0;
  bool wide = false;
};

class CrossEntropy : Classes {
public:
  static size_t work(const DsLaunch &l) {
    return sizeof(double) * static_cast<size_t>(product(l.ins[0].dims, 0, l.ins[0].rank - 1));
  }
  const char *prepare(const DsLaunch &l) { return init(l); }
  const char *run(const DsLaunch &l) {
    double *lse = workAt<double>(l, 0);
    parallelFor(l.threads, rows, rows * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        lse[r] = n ? logSumExp(l, r) : -1.0 / 0.0;
        f32(l.outs[1])[r] = static_cast<float>(lse[r]);
      }
    });
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t k = label(l, r);
      if (k == ignore)
        continue;
      if (!isClass(k))
        return kBadLabel;
      sum += lse[r] - static_cast<double>(logit(l, r, k));
    }
    *f32(l.outs[0]) = static_cast<float>(sum * *ptr<double>(l.ins[2]));
    return nullptr;
  }

private:
  double logSumExp(const DsLaunch &l, int64_t row) const {
    auto largest = HWY_DYNAMIC_DISPATCH(largestOf);
    auto part = HWY_DYNAMIC_DISPATCH(sumExp);
    float top = -1.0f / 0.0f;
    forBlocks(l, row, [&](const float *x, int64_t, int64_t m) {
      float v = largest(x, m);
      top = v > top || std::isnan(v) ? v : top; // once NaN, it stays
    });
    double sum = 0;
    forBlocks(l, row, [&](const float *x, int64_t, int64_t m) { sum += part(x, top, m); });
    return static_cast<double>(top) + std::log(sum);
  }
};

class CrossEntropyGrad : Classes {
public:
  const char *prepare(const DsLaunch &l) { return init(l); }
  const char *run(const DsLaunch &l) {
    auto fill = HWY_DYNAMIC_DISPATCH(scaledExp);
    const double inv = *ptr<double>(l.ins[3]);
    const float scale = static_cast<float>(inv);
    const float *lse = f32(l.ins[2]);
    void *out = l.outs[0].data;
    std::atomic<bool> bad{false};
    parallelFor(l.threads, rows, rows * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t k = label(l, r);
        if (k == ignore || !isClass(k)) {
          int64_t bytes = elemBytes(l.outs[0]);
          std::memset(static_cast<char *>(out) + r * n * bytes, 0, static_cast<size_t>(n * bytes));
          if (k != ignore)
            bad.store(true, std::memory_order_relaxed);
          continue;
        }
        const double x = static_cast<double>(logit(l, r, k));
        if (port.isF32()) {
          fill(f32(l.ins[0]) + r * n, lse[r], scale, f32(l.outs[0]) + r * n, n);
        } else {
          float block[FloatPort::kBlock];
          forBlocks(l, r, [&](const float *xs, int64_t first, int64_t m) {
            fill(xs, lse[r], scale, block, m);
            port.store(block, out, r * n + first, 1, m);
          });
        }
        const auto hit = static_cast<float>(std::expm1(x - static_cast<double>(lse[r])) * inv);
        port.store(&hit, out, r * n + k, 1, 1);
      }
    });
    return bad.load() ? kBadLabel : nullptr;
  }
};

/// Elements of prediction and target are summed in at most this many chunks.
static constexpr int64_t kChunks = 512;

class Mse {
  static int64_t chunkElems(const DsLaunch &l) {
    return std::max<int64_t>(2048, (elems(l.ins[0]) + kChunks - 1) / kChunks);
  }

public:
  static size_t work(const DsLaunch &) { return sizeof(double) * kChunks; }
  const char *prepare(const DsLaunch &l) {
    n = elems(l.ins[0]);
    chunk = chunkElems(l);
    return is(l.ins[0], DType::F32) && is(l.ins[1], DType::F32)
               ? nullptr
               : "the cpu kernel needs f32 operands";
  }
  const char *run(const DsLaunch &l) {
    auto part = HWY_DYNAMIC_DISPATCH(squaredError);
    double *sums = workAt<double>(l, 0);
    const int64_t chunks = (n + chunk - 1) / chunk;
    parallelFor(l.threads, chunks, n, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        sums[c] = part(f32(l.ins[0]) + c * chunk, f32(l.ins[1]) + c * chunk,
                       std::min(chunk, n - c * chunk));
    });
    double sum = 0;
    for (int64_t c = 0; c < chunks; ++c)
      sum += sums[c];
    *f32(l.outs[0]) = static_cast<float>(sum * *ptr<double>(l.ins[2]));
    return nullptr;
  }

private:
  int64_t n = 0, chunk = 0;
};

class MseGrad {
public:
  const char *prepare(const DsLaunch &l) {
    n = elems(l.ins[0]);
    return is(l.ins[0], DType::F32) && is(l.ins[1], DType::F32)
               ? nullptr
               : "the cpu kernel needs f32 operands";
  }
  const char *run(const DsLaunch &l) {
    auto range = HWY_DYNAMIC_DISPATCH(scaledDifference);
    const float scale = static_cast<float>(2 * *ptr<double>(l.ins[2]));
    parallelFor(l.threads, n, n, [&](int64_t begin, int64_t end) {
      range(f32(l.ins[0]) + begin, f32(l.ins[1]) + begin, scale, f32(l.outs[0]) + begin,
            end - begin);
    });
    return nullptr;
  }

private:
  int64_t n = 0;
};

const KernelFns crossEntropy = fnsOf<Dense<CrossEntropy>>();
const KernelFns crossEntropyGrad = fnsOf<Dense<CrossEntropyGrad>>();
const KernelFns mse = fnsOf<Widen<Dense<Mse>>>();
const KernelFns mseGrad = fnsOf<Widen<Dense<MseGrad>>>();

} // namespace ds::cpu
#endif
