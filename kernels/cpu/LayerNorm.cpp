// SPDX-License-Identifier: Apache-2.0
//
// layer_norm, with and without an addition before it, and its gradient over the last axes, one row after the other. The gradients of scale and bias
// are summed over fixed blocks of rows, then over the blocks in order: the number of threads does not matter.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Residual.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/LayerNorm.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

void layerNormRow(const float *x, const float *scale, const float *bias, double eps, float *y,
                  float *mean, float *rstd, int64_t n) {
  const double inv = 1.0 / static_cast<double>(n);
  const double mu =
      inv * rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR { return loadAt(x, i, m, 0); });
  const float center = static_cast<float>(mu);
  const VF vc = set(center);
  double var = inv * rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
                 VF d = hn::Sub(loadAt(x, i, m, center), vc);
                 return hn::Mul(d, d);
               });
  const double shift = mu - static_cast<double>(center); // the rounded mean is not quite the mean
  var -= shift * shift;
  const float r = static_cast<float>(1.0 / std::sqrt(var + eps));
  const VF vr = set(r);
  *mean = center;
  *rstd = r;
  const int64_t N = lanes();
  for (int64_t i = 0; i < n; i += N) {
    const int64_t m = n - i < N ? n - i : N;
    VF v = hn::Mul(hn::Sub(loadAt(x, i, m, 0), vc), vr);
    VF b = bias ? loadAt(bias, i, m, 0) : set(0);
    storeAt(hn::MulAdd(v, loadAt(scale, i, m, 0), b), y, i, m);
  }
}

/// dx of one row; adds to dscale and dbias.
void layerNormGradRow(const float *dy, const float *x, const float *scale, float mean, float rstd,
                      float *dx, float *dscale, float *dbias, int64_t n) {
  const VF vm = set(mean), vr = set(rstd);
  double sumG, sumGX;
  rowSum2(
      n,
      [&](int64_t i, int64_t m, VF &g, VF &gx) HWY_ATTR {
        VF d = loadAt(dy, i, m, 0);
        VF hat = hn::Mul(hn::Sub(loadAt(x, i, m, mean), vm), vr);
        g = hn::Mul(d, loadAt(scale, i, m, 0));
        gx = hn::Mul(g, hat);
        storeAt(hn::MulAdd(d, hat, loadAt(dscale, i, m, 0)), dscale, i, m);
        storeAt(hn::Add(d, loadAt(dbias, i, m, 0)), dbias, i, m);
      },
      sumG, sumGX);
  const double inv = 1.0 / static_cast<double>(n);
  const VF a = set(static_cast<float>(sumG * inv)), b = set(static_cast<float>(sumGX * inv));
  const int64_t N = lanes();
  for (int64_t i = 0; i < n; i += N) {
    const int64_t m = n - i < N ? n - i : N;
    VF hat = hn::Mul(hn::Sub(loadAt(x, i, m, 0), vm), vr);
    VF g = hn::Mul(loadAt(dy, i, m, 0), loadAt(scale, i, m, 0));
    storeAt(hn::Mul(vr, hn::NegMulAdd(hat, b, hn::Sub(g, a))), dx, i, m);
  }
}

/// out[i] = sum over k of parts[k * stride + i], in order of k
void sumParts(const float *parts, int64_t count, int64_t stride, float *out, int64_t n) {
  const int64_t N = lanes();
  for (int64_t i = 0; i < n; i += N) {
    const int64_t m = n - i < N ? n - i : N;
    VF s = loadAt(parts, i, m, 0);
    for (int64_t k = 1; k < count; ++k)
      s = hn::Add(s, loadAt(parts, k * stride + i, m, 0));
    storeAt(s, out, i, m);
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(layerNormRow);
HWY_EXPORT(layerNormGradRow);
HWY_EXPORT(sumParts);

/// Longest rows of 16-bit floats that go through buffers on the stack.
static constexpr int64_t kHalfRow = 4096;

/// Whether operand x and what lies beside it are rows of 16-bit floats, so that no whole tensor need be widened.
static bool goesByRows(const DsLaunch &l, int x) {
  const DsTensor &t = l.ins[x];
  int axis = normAxis(attr(l, "axis").i, t.rank);
  bool all = isHalf(t) && product(t.dims, axis, t.rank) <= kHalfRow;
  for (int i = 0; i < l.numIns + l.numOuts; ++i)
    all &= isRowMajor(i < l.numIns ? l.ins[i] : l.outs[i - l.numIns]);
  return all;
}

/// A row, or a vector as long as one.
struct HalfRows {
  DType type;
  int64_t n;
  void load(const DsTensor &t, int64_t row, float *out) const {
    widen(type, ptr<uint16_t>(t) + row * n, out, n);
  }
  void store(const float *x, const DsTensor &t, int64_t row) const {
    narrow(type, x, ptr<uint16_t>(t) + row * n, n);
  }
  /// x + y is row `row` of t, and x what is left of it in 16 bits.
  void addTo(float *x, const float *y, const DsTensor &t, int64_t row) const {
    addRow(x, y, x, n);
    store(x, t, row);
    load(t, row, x);
  }
};

/// (x, scale[, bias]) -> y, mean, rstd; with an addition (a, b, scale[, bias]) -> x, y, mean, rstd.
template <bool kAdds> class LayerNorm {
public:
  const char *prepare(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    int axis = normAxis(attr(l, "axis").i, x.rank);
    rows = product(x.dims, 0, axis);
    n = product(x.dims, axis, x.rank);
    eps = attr(l, "eps").f;
    return requireF32(l);
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(layerNormRow);
    const DsTensor *in = l.ins + kAdds, *out = l.outs + kAdds;
    const float *bias = l.numIns > 2 + kAdds ? f32(in[2]) : nullptr;
    parallelFor(l.threads, rows, rows * n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (kAdds)
          addRow(f32(l.ins[0]) + r * n, f32(l.ins[1]) + r * n, f32(l.outs[0]) + r * n, n);
        row(f32(kAdds ? l.outs[0] : l.ins[0]) + r * n, f32(in[1]), bias, eps, f32(out[0]) + r * n,
            f32(out[1]) + r, f32(out[2]) + r, n);
      }
    });
    return nullptr;
  }

private:
  int64_t rows = 0, n = 0;
  double eps = 0;
};

class LayerNormGrad {
protected:
  struct Shape {
    int64_t rows, n, blockRows, blocks, stride; // stride: floats from one partial sum to the next
  };
  static Shape shapeOf(const DsLaunch &l) {
    const DsTensor &x = l.ins[1];
    int axis = normAxis(attr(l, "axis").i, x.rank);
    Shape s{};
    s.rows = product(x.dims, 0, axis);
    s.n = product(x.dims, axis, x.rank);
    s.blockRows = std::max<int64_t>(8, (s.rows + 31) / 32);
    s.blocks = (s.rows + s.blockRows - 1) / s.blockRows;
    s.stride = (s.n + 63) / 64 * 64;
    return s;
  }

public:
  static size_t work(const DsLaunch &l) {
    Shape s = shapeOf(l);
    return sizeof(float) * static_cast<size_t>(2 * s.blocks * s.stride);
  }
  const char *prepare(const DsLaunch &l) {
    s = shapeOf(l);
    return requireF32(l);
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(layerNormGradRow);
    float *dscale = f32(l.outs[1]), *dbias = f32(l.outs[2]);
    if (s.rows == 0) {
      std::fill_n(dscale, s.n, 0.0f);
      std::fill_n(dbias, s.n, 0.0f);
      return nullptr;
    }
    float *parts = workAt<float>(l, 0), *biasParts = parts + s.blocks * s.stride;
    parallelFor(l.threads, s.blocks, s.rows * s.n, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        float *ds = parts + b * s.stride, *db = biasParts + b * s.stride;
        std::fill_n(ds, s.n, 0.0f);
        std::fill_n(db, s.n, 0.0f);
        for (int64_t r = b * s.blockRows; r < std::min(s.rows, (b + 1) * s.blockRows); ++r) {
          row(f32(l.ins[0]) + r * s.n, f32(l.ins[1]) + r * s.n, f32(l.ins[2]), f32(l.ins[3])[r],
              f32(l.ins[4])[r], f32(l.outs[0]) + r * s.n, ds, db, s.n);
          if (l.numIns > 5)
            addRow(f32(l.outs[0]) + r * s.n, f32(l.ins[5]) + r * s.n, f32(l.outs[0]) + r * s.n,
                   s.n);
        }
      }
    });
    auto sum = HWY_DYNAMIC_DISPATCH(sumParts);
    sum(parts, s.blocks, s.stride, dscale, s.n);
    sum(biasParts, s.blocks, s.stride, dbias, s.n);
    return nullptr;
  }

protected:
  Shape s{};
};

template <bool kAdds> class LayerNormHalf {
public:
  static bool takes(const DsLaunch &l) { return goesByRows(l, 0); }
  static size_t work(const DsLaunch &) { return 0; }
  const char *prepare(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    int axis = normAxis(attr(l, "axis").i, x.rank);
    rows = product(x.dims, 0, axis);
    half = {static_cast<DType>(x.dtype), product(x.dims, axis, x.rank)};
    eps = attr(l, "eps").f;
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(layerNormRow);
    const DsTensor *in = l.ins + kAdds, *out = l.outs + kAdds;
    const bool hasBias = l.numIns > 2 + kAdds;
    parallelFor(l.threads, rows, rows * half.n, [&](int64_t begin, int64_t end) {
      alignas(64) float x[kHalfRow], y[kHalfRow], scale[kHalfRow], bias[kHalfRow];
      half.load(in[1], 0, scale);
      if (hasBias)
        half.load(in[2], 0, bias);
      for (int64_t r = begin; r < end; ++r) {
        half.load(l.ins[0], r, x);
        if (kAdds) {
          half.load(l.ins[1], r, y);
          half.addTo(x, y, l.outs[0], r);
        }
        row(x, scale, hasBias ? bias : nullptr, eps, x, f32(out[1]) + r, f32(out[2]) + r, half.n);
        half.store(x, out[0], r);
      }
    });
    return nullptr;
  }

private:
  HalfRows half{};
  int64_t rows = 0;
  double eps = 0;
};

class LayerNormGradHalf : LayerNormGrad {
public:
  static bool takes(const DsLaunch &l) { return goesByRows(l, 1); }
  static size_t work(const DsLaunch &l) { return LayerNormGrad::work(l); }
  const char *prepare(const DsLaunch &l) {
    s = shapeOf(l);
    half = {static_cast<DType>(l.ins[1].dtype), s.n};
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(layerNormGradRow);
    auto sum = HWY_DYNAMIC_DISPATCH(sumParts);
    float *parts = workAt<float>(l, 0), *biasParts = parts + s.blocks * s.stride;
    parallelFor(l.threads, s.blocks, s.rows * s.n, [&](int64_t begin, int64_t end) {
      alignas(64) float dy[kHalfRow], x[kHalfRow], scale[kHalfRow], dx[kHalfRow];
      half.load(l.ins[2], 0, scale);
      for (int64_t b = begin; b < end; ++b) {
        float *ds = parts + b * s.stride, *db = biasParts + b * s.stride;
        std::fill_n(ds, s.n, 0.0f);
        std::fill_n(db, s.n, 0.0f);
        for (int64_t r = b * s.blockRows; r < std::min(s.rows, (b + 1) * s.blockRows); ++r) {
          half.load(l.ins[0], r, dy);
          half.load(l.ins[1], r, x);
          row(dy, x, scale, f32(l.ins[3])[r], f32(l.ins[4])[r], dx, ds, db, s.n);
          half.store(dx, l.outs[0], r);
          if (l.numIns > 5) {
            half.load(l.outs[0], r, dx);
            half.load(l.ins[5], r, x);
            half.addTo(dx, x, l.outs[0], r);
          }
        }
      }
    });
    alignas(64) float total[kHalfRow];
    for (int k : {0, 1}) {
      std::fill_n(total, s.n, 0.0f);
      if (s.rows > 0)
        sum(k ? biasParts : parts, s.blocks, s.stride, total, s.n);
      half.store(total, l.outs[1 + k], 0);
    }
    return nullptr;
  }

private:
  HalfRows half{};
};

static std::array<Step, 2> addSteps(const DsLaunch &l) {
  Step norm{&layerNorm, {~0, 2}, {~1, ~2, ~3}};
  if (l.numIns > 3)
    norm.ins.push_back(3);
  return {Step{&add, {0, 1}, {~0}}, norm};
}
static std::array<Step, 2> gradSteps(const DsLaunch &) {
  return {Step{&layerNormGrad, {0, 1, 2, 3, 4}, {~0, ~1, ~2}}, Step{&add, {~0, 5}, {~0}}};
}

/// With `other`.
class GradSteps : public HalfSteps<gradSteps, 1> {
public:
  static bool takes(const DsLaunch &l) { return HalfSteps::takes(l) && l.numIns > 5; }
};

const KernelFns layerNorm = fnsOf<Either<LayerNormHalf<false>, Widen<Dense<LayerNorm<false>>>>>();
const KernelFns addLayerNorm =
    fnsOf<Either<LayerNormHalf<true>, Either<HalfSteps<addSteps, 0>, Dense<LayerNorm<true>>>>>();
const KernelFns layerNormGrad =
    fnsOf<Either<LayerNormGradHalf, Either<GradSteps, Widen<Dense<LayerNormGrad>>>>>();

} // namespace ds::cpu
#endif
