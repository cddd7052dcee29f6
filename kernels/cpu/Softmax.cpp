// SPDX-License-Identifier: Apache-2.0
//
// softmax, log_softmax and softmax_grad along any axis: row by row if the axis is the last one, else one
// vector of neighbouring columns at a time.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#ifndef DS_CPU_SOFTMAX_KINDS
#define DS_CPU_SOFTMAX_KINDS
namespace ds::cpu {
enum class SoftmaxOp { Softmax, LogSoftmax, Grad }; // Grad: a is dy, b is y
} // namespace ds::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Softmax.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

static void softmaxRow(const float *x, float *out, int64_t n) {
  const VF top = set(rowExtreme<true>(x, n));
  double sum = rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
    VF e = expOf(hn::Sub(loadAt(x, i, m, -1.0f / 0.0f), top));
    storeAt(e, out, i, m);
    return e;
  });
  const VF scale = set(static_cast<float>(1.0 / sum));
  map1([&](VF e) HWY_ATTR { return hn::Mul(e, scale); }, out, out, n);
}

static void logSoftmaxRow(const float *x, float *out, int64_t n) {
  const VF top = set(rowExtreme<true>(x, n));
  double sum = rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
    return expOf(hn::Sub(loadAt(x, i, m, -1.0f / 0.0f), top));
  });
  const VF logSum = set(static_cast<float>(std::log(sum)));
  map1([&](VF v) HWY_ATTR { return hn::Sub(hn::Sub(v, top), logSum); }, x, out, n);
}

static void softmaxGradRow(const float *dy, const float *y, float *dx, int64_t n) {
  double sum = rowSum(n, [&](int64_t i, int64_t m)
                             HWY_ATTR { return hn::Mul(loadAt(dy, i, m, 0), loadAt(y, i, m, 0)); });
  const VF dot = set(static_cast<float>(sum));
  map2([&](VF g, VF p) HWY_ATTR { return hn::Mul(p, hn::Sub(g, dot)); }, dy, y, dx, n);
}

void softmaxRows(SoftmaxOp op, const float *a, const float *b, float *out, int64_t rows,
                 int64_t n) {
  for (int64_t r = 0; r < rows; ++r, a += n, out += n) {
    if (op == SoftmaxOp::Softmax)
      softmaxRow(a, out, n);
    else if (op == SoftmaxOp::LogSoftmax)
      logSoftmaxRow(a, out, n);
    else
      softmaxGradRow(a, b + r * n, out, n);
  }
}

/// m <= lanes() columns whose elements are `stride` apart.
static void softmaxColumns(SoftmaxOp op, const float *a, const float *b, float *out, int64_t n,
                           int64_t stride, int64_t m) {
  VF sum = set(0);
  if (op == SoftmaxOp::Grad) {
    for (int64_t i = 0; i < n; ++i)
      sum = hn::MulAdd(loadAt(a, i * stride, m, 0), loadAt(b, i * stride, m, 0), sum);
    for (int64_t i = 0; i < n; ++i)
      storeAt(hn::Mul(loadAt(b, i * stride, m, 0), hn::Sub(loadAt(a, i * stride, m, 0), sum)), out,
              i * stride, m);
    return;
  }
  VF top = loadAt(a, 0, m, 0);
  for (int64_t i = 1; i < n; ++i)
    top = hn::Max(top, loadAt(a, i * stride, m, 0));
  for (int64_t i = 0; i < n; ++i) {
    VF e = expOf(hn::Sub(loadAt(a, i * stride, m, 0), top));
    sum = hn::Add(sum, e);
    if (op == SoftmaxOp::Softmax)
      storeAt(e, out, i * stride, m);
  }
  if (op == SoftmaxOp::Softmax) {
    VF scale = hn::Div(set(1.0f), sum);
    for (int64_t i = 0; i < n; ++i)
      storeAt(hn::Mul(loadAt(out, i * stride, m, 0), scale), out, i * stride, m);
  } else {
    VF logSum = logOf(sum);
    for (int64_t i = 0; i < n; ++i)
      storeAt(hn::Sub(hn::Sub(loadAt(a, i * stride, m, 0), top), logSum), out, i * stride, m);
  }
}

void softmaxBlock(SoftmaxOp op, const float *a, const float *b, float *out, int64_t n,
                  int64_t inner) {
  const int64_t N = lanes();
  for (int64_t c = 0; c < inner; c += N)
    softmaxColumns(op, a + c, b ? b + c : nullptr, out + c, n, inner,
                   inner - c < N ? inner - c : N);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(softmaxRows);
HWY_EXPORT(softmaxBlock);

template <SoftmaxOp K> class SoftmaxKernel {
public:
  const char *prepare(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    int axis = normAxis(attr(l, "axis").i, x.rank);
    outer = product(x.dims, 0, axis);
    n = x.dims[axis];
    inner = product(x.dims, axis + 1, x.rank);
    return requireF32(l);
  }
  const char *run(const DsLaunch &l) {
    if (n == 0 || inner == 0)
      return nullptr;
    const float *a = f32(l.ins[0]), *b = l.numIns > 1 ? f32(l.ins[1]) : nullptr;
    float *out = f32(l.outs[0]);
    auto rows = HWY_DYNAMIC_DISPATCH(softmaxRows);
    auto block = HWY_DYNAMIC_DISPATCH(softmaxBlock);
    const int64_t size = n * inner;
    parallelFor(l.threads, outer, outer * size * 4, [&](int64_t begin, int64_t end) {
      const float *second = b ? b + begin * size : nullptr;
      if (inner == 1)
        return rows(K, a + begin * size, second, out + begin * size, end - begin, n);
      for (int64_t o = begin; o < end; ++o)
        block(K, a + o * size, b ? b + o * size : nullptr, out + o * size, n, inner);
    });
    return nullptr;
  }

private:
  int64_t outer = 0, n = 0, inner = 0;
};

/// Rows of 16-bit floats, each through a row of f32 on the stack.
template <SoftmaxOp K> class SoftmaxHalf {
  static constexpr int64_t kRow = 4096;

public:
  static bool takes(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    bool all = isHalf(x) && isRowMajor(x) && isRowMajor(l.outs[0]) &&
               (l.numIns == 1 || isRowMajor(l.ins[1]));
    return all && normAxis(attr(l, "axis").i, x.rank) == x.rank - 1 && x.dims[x.rank - 1] <= kRow;
  }

  static size_t work(const DsLaunch &) { return 0; }
  const char *prepare(const DsLaunch &l) {
    n = l.ins[0].dims[l.ins[0].rank - 1];
    rows = product(l.ins[0].dims, 0, l.ins[0].rank - 1);
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    if (n == 0)
      return nullptr;
    auto row = HWY_DYNAMIC_DISPATCH(softmaxRows);
    auto type = static_cast<DType>(l.ins[0].dtype);
    auto at = [this](const DsTensor &t, int64_t r) { return ptr<uint16_t>(t) + r * n; };
    parallelFor(l.threads, rows, rows * n * 4, [&](int64_t begin, int64_t end) {
      alignas(64) float x[kRow], second[K == SoftmaxOp::Grad ? kRow : 1];
      for (int64_t r = begin; r < end; ++r) {
        widen(type, at(l.ins[0], r), x, n);
        if (K == SoftmaxOp::Grad)
          widen(type, at(l.ins[1], r), second, n);
        row(K, x, second, x, 1, n);
        narrow(type, x, at(l.outs[0], r), n);
      }
    });
    return nullptr;
  }

private:
  int64_t rows = 0, n = 0;
};

template <SoftmaxOp K> using AnySoftmax = Either<SoftmaxHalf<K>, Widen<Dense<SoftmaxKernel<K>>>>;

const KernelFns softmax = fnsOf<AnySoftmax<SoftmaxOp::Softmax>>();
const KernelFns logSoftmax = fnsOf<AnySoftmax<SoftmaxOp::LogSoftmax>>();
const KernelFns softmaxGrad = fnsOf<AnySoftmax<SoftmaxOp::Grad>>();

} // namespace ds::cpu
#endif
