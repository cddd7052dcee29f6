// SPDX-License-Identifier: Apache-2.0
//
// linear_cross_entropy and its gradients: chunks of rows of logits, as kernels/LinearLoss.h has them, by oneDNN's products; bf16
// where it has dot products of that, else 16 bits through f32. The workspace has the chunk, the terms of the loss and the sums.
#include "kernels/LinearLoss.h"

#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/LossRow.h"
#include "kernels/cpu/Matmul.h"
#include "kernels/cpu/Parallel.h"
#include "kernels/cpu/Product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ds::cpu {

namespace {

/// A product, by the library or by our own kernel.
struct AnyProduct {
  ProductSpec spec;
  Product library;
  bool byLibrary = false;

  void prepare(const ProductSpec &s, int threads, size_t workBytes) {
    spec = s;
    byLibrary = library.prepare(s, threads, workBytes);
  }
  const char *run(const void *a, const void *b, void *c, void *work, int threads,
                  const void *bias = nullptr) const {
    if (byLibrary)
      return library.run(a, b, c, work, threads, bias);
    auto *out = static_cast<float *>(c);
    ownMatmul(spec.shape, static_cast<const float *>(a), static_cast<const float *>(b), out,
              threads, spec.adds);
    for (int64_t i = 0; bias && i < spec.shape.m; ++i)
      for (int64_t j = 0; j < spec.shape.n; ++j)
        out[i * spec.shape.cm + j] += static_cast<const float *>(bias)[j];
    return nullptr;
  }
};

ProductSpec productOf(const LinearLossShape &s, DType type, int64_t i, LossProduct role) {
  ProductSpec p;
  p.shape = s.product(role, s.rowsOf(i));
  p.in = p.out = type;
  p.bias = role == LossProduct::Logits && s.biasAt >= 0;
  p.adds = role == LossProduct::Dw && i > 0;
  if (role == LossProduct::Dw && s.hasSums)
    p.out = DType::F32;
  return p;
}

template <bool isGradient> class LinearLoss {
public:
  /// Whether the library has all products of bf16.
  static bool takesBf16(const DsLaunch &l) {
    bool all = true;
    LinearLossShape s = linearLossShape(l, isGradient, DType::BF16);
    s.forProducts([&](int64_t i, LossProduct role) {
      all = all && Product::work(productOf(s, DType::BF16, i, role), l.threads);
    });
    return all && s.chunks() > 0;
  }

  static size_t work(const DsLaunch &l) {
    const DType type = typeOf(l);
    const LinearLossShape s = linearLossShape(l, isGradient, type);
    size_t scratch = 0;
    s.forProducts([&](int64_t i, LossProduct role) {
      scratch =
          std::max(scratch, Product::work(productOf(s, type, i, role), l.threads).value_or(0));
    });
    return LinearLossWork(s, type).products + scratch;
  }

  const char *prepare(const DsLaunch &l) {
    type = typeOf(l);
    s = linearLossShape(l, isGradient, type);
    row = LossRow(type, s.classes);
    at = LinearLossWork(s, type);
    if (l.workBytes < at.products)
      return "the plan's workspace is smaller than this kernel needs";
    s.forProducts([&](int64_t i, LossProduct role) {
      products[s.kindOf(i)][static_cast<int>(role)].prepare(productOf(s, type, i, role), l.threads,
                                                            l.workBytes - at.products);
    });
    return nullptr;
  }

  const char *run(const DsLaunch &l) {
    const char *x = ptr<char>(l.ins[0]), *w = ptr<char>(l.ins[1]);
    const void *bias = s.biasAt >= 0 ? l.ins[s.biasAt].data : nullptr;
    char *chunk = workAt<char>(l, at.chunk);
    void *scratch = workAt<void>(l, at.products);
    void *dw = !isGradient ? nullptr : s.hasSums ? workAt<void>(l, at.sums) : l.outs[2].data;
    double loss = 0;
    bad.store(false);
    if (s.wantsBias())
      std::fill_n(workAt<double>(l, at.columns), s.classes, 0.0);
    for (int64_t i = 0; i < s.chunks(); ++i) {
      const int64_t first = i * s.chunk, m = s.rowsOf(i);
      const int64_t offset = first * s.inner * byteSize(type);
      const AnyProduct *p = products[s.kindOf(i)];
      if (const char *message = p[static_cast<int>(LossProduct::Logits)].run(
              x + offset, w, chunk, scratch, l.threads, bias))
        return message;
      loss += turn(l, chunk, first, m);
      if constexpr (isGradient) {
        if (s.wantsBias())
          addColumns(l, chunk, m);
        if (const char *message = p[static_cast<int>(LossProduct::Dx)].run(
                chunk, w, ptr<char>(l.outs[1]) + offset, scratch, l.threads))
          return message;
        const void *a = s.transW ? chunk : x + offset, *b = s.transW ? x + offset : chunk;
        if (const char *message =
                p[static_cast<int>(LossProduct::Dw)].run(a, b, dw, scratch, l.threads))
          return message;
      }
    }
    *f32(l.outs[0]) = static_cast<float>(loss * *ptr<double>(l.ins[3]));
    if constexpr (isGradient)
      finish(l);
    return bad.load() ? kBadLabel : nullptr;
  }

private:
  int64_t rowBytes() const { return s.stride * byteSize(type); } // from one to the next
  static DType typeOf(const DsLaunch &l) { return static_cast<DType>(l.ins[0].dtype); }
  /// Returns the sum of the loss over these rows, and turns their logits into their gradient.
  double turn(const DsLaunch &l, char *chunk, int64_t first, int64_t m) {
    double *terms = workAt<double>(l, at.terms);
    const double scale = isGradient ? *ptr<double>(l.ins[4]) : 0;
    parallelFor(l.threads, m, m * s.classes, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        char *logits = chunk + r * rowBytes();
        const int64_t k = labelAt(l.ins[2], first + r);
        terms[r] = 0;
        if (k != s.ignore && row.isClass(k)) {
          const double lse = row.logSumExp(logits);
          terms[r] = lse - static_cast<double>(row.logit(logits, k));
          if (isGradient)
            row.gradient(logits, k, static_cast<float>(lse), scale, logits);
          continue;
        }
        if (isGradient)
          std::memset(logits, 0, static_cast<size_t>(row.bytes));
        if (k != s.ignore)
          bad.store(true, std::memory_order_relaxed);
      }
    });
    double sum = 0;
    for (int64_t r = 0; r < m; ++r)
      sum += terms[r];
    return sum;
  }

  void addColumns(const DsLaunch &l, const char *chunk, int64_t m) const {
    constexpr int64_t kBlock = FloatPort::kBlock;
    double *columns = workAt<double>(l, at.columns);
    const int64_t blocks = (s.classes + kBlock - 1) / kBlock;
    parallelFor(l.threads, blocks, m * s.classes, [&](int64_t begin, int64_t end) {
      float block[kBlock];
      for (int64_t b = begin; b < end; ++b) {
        double *to = columns + b * kBlock;
        const int64_t n = std::min(kBlock, s.classes - b * kBlock);
        for (int64_t r = 0; r < m; ++r) {
          row.port.load(chunk + r * rowBytes(), b * kBlock, 1, n, block);
          for (int64_t k = 0; k < n; ++k)
            to[k] += static_cast<double>(block[k]);
        }
      }
    });
  }

  /// dbias, dw from its sums, and zeros if there are no rows.
  void finish(const DsLaunch &l) const {
    const double *columns = workAt<double>(l, at.columns);
    for (int64_t k = 0; s.wantsBias() && k < s.classes; ++k) {
      const auto v = static_cast<float>(columns[k]);
      row.port.store(&v, l.outs[3].data, k, 1, 1);
    }
    const int64_t n = s.classes * s.inner;
    if (s.hasSums)
      parallelFor(l.threads, n, n, [&](int64_t begin, int64_t end) {
        narrow(type, workAt<float>(l, at.sums) + begin, ptr<uint16_t>(l.outs[2]) + begin,
               end - begin);
      });
    if (s.rows == 0)
      std::memset(l.outs[2].data, 0, static_cast<size_t>(n * byteSize(type)));
  }

  LinearLossShape s;
  DType type = DType::F32;
  LossRow row;
  LinearLossWork at;
  AnyProduct products[3][3]; // by kind of chunk and role
  std::atomic<bool> bad{false};
};

/// For bf16, as it is.
template <bool isGradient> class NativeLoss : public Dense<LinearLoss<isGradient>> {
public:
  static bool takes(const DsLaunch &l) {
    return is(l.ins[0], DType::BF16) && LinearLoss<isGradient>::takesBf16(l);
  }
};

template <bool isGradient>
using AnyLoss = Either<NativeLoss<isGradient>, Widen<Dense<LinearLoss<isGradient>>>>;

} // namespace

const KernelFns linearCrossEntropy = fnsOf<AnyLoss<false>>();
const KernelFns linearCrossEntropyGrad = fnsOf<AnyLoss<true>>();

} // namespace ds::cpu
