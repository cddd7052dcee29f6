// SPDX-License-Identifier: Apache-2.0
//
// cross_entropy and mse with their gradients. A row's log-sum-exp is kept in f64 until the loss is summed, in
// row order; squared errors are summed in f64 over fixed chunks.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/LossRow.h"

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
HWY_EXPORT(squaredError);
HWY_EXPORT(scaledDifference);

/// Rows, classes and labels, common to both directions.
class Classes {
protected:
  const char *init(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    if (!isNarrowFloat(x))
      return "the cpu kernel needs logits of f32, bf16 or f16";
    rows = product(x.dims, 0, x.rank - 1);
    row = LossRow(static_cast<DType>(x.dtype), x.dims[x.rank - 1]);
    ignore = attr(l, "ignore_index").i;
    return nullptr;
  }
  const void *logits(const DsLaunch &l, int64_t r) const {
    return static_cast<const char *>(l.ins[0].data) + r * row.bytes;
  }
  LossRow row;
  int64_t rows = 0, ignore = 0;
};

class CrossEntropy : Classes {
public:
  static size_t work(const DsLaunch &l) {
    return sizeof(double) * static_cast<size_t>(product(l.ins[0].dims, 0, l.ins[0].rank - 1));
  }
  const char *prepare(const DsLaunch &l) { return init(l); }
  const char *run(const DsLaunch &l) {
    double *lse = workAt<double>(l, 0);
    parallelFor(l.threads, rows, rows * row.n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        lse[r] = row.logSumExp(logits(l, r));
        f32(l.outs[1])[r] = static_cast<float>(lse[r]);
      }
    });
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t k = labelAt(l.ins[1], r);
      if (k == ignore)
        continue;
      if (!row.isClass(k))
        return kBadLabel;
      sum += lse[r] - static_cast<double>(row.logit(logits(l, r), k));
    }
    *f32(l.outs[0]) = static_cast<float>(sum * *ptr<double>(l.ins[2]));
    return nullptr;
  }
};

class CrossEntropyGrad : Classes {
public:
  const char *prepare(const DsLaunch &l) { return init(l); }
  const char *run(const DsLaunch &l) {
    const double inv = *ptr<double>(l.ins[3]);
    const float *lse = f32(l.ins[2]);
    std::atomic<bool> bad{false};
    parallelFor(l.threads, rows, rows * row.n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t k = labelAt(l.ins[1], r);
        char *out = static_cast<char *>(l.outs[0].data) + r * row.bytes;
        if (k != ignore && row.isClass(k)) {
          row.gradient(logits(l, r), k, lse[r], inv, out);
          continue;
        }
        std::memset(out, 0, static_cast<size_t>(row.bytes));
        if (k != ignore)
          bad.store(true, std::memory_order_relaxed);
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
