// SPDX-License-Identifier: Apache-2.0
//
// rms_norm, with and without an addition before it, and its gradient over the last axes, one row after the other. The gradient of the scale is summed over fixed
// blocks of rows, then over the blocks in order: the number of threads does not matter. Rows of 16-bit floats go through buffers
// on the stack.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"
#include "kernels/cpu/Residual.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/RmsNorm.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

void rmsNormRow(const float *x, const float *scale, double eps, float *y, float *rstd, int64_t n) {
  const double squares = rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
    VF v = loadAt(x, i, m, 0);
    return hn::Mul(v, v);
  });
  const float r = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
  *rstd = r;
  map2([&](VF v, VF s) HWY_ATTR { return hn::Mul(hn::Mul(v, set(r)), s); }, x, scale, y, n);
}

/// dx of one row; adds to dscale.
void rmsNormGradRow(const float *dy, const float *x, const float *scale, float rstd, float *dx,
                    float *dscale, int64_t n) {
  const VF r = set(rstd);
  const double dot = rowSum(n, [&](int64_t i, int64_t m) HWY_ATTR {
    VF hat = hn::Mul(loadAt(x, i, m, 0), r), d = loadAt(dy, i, m, 0);
    storeAt(hn::MulAdd(d, hat, loadAt(dscale, i, m, 0)), dscale, i, m);
    return hn::Mul(hn::Mul(d, loadAt(scale, i, m, 0)), hat);
  });
  const VF mean = set(static_cast<float>(dot / static_cast<double>(n)));
  const int64_t N = lanes();
  for (int64_t i = 0; i < n; i += N) {
    const int64_t m = n - i < N ? n - i : N;
    VF hat = hn::Mul(loadAt(x, i, m, 0), r);
    VF g = hn::Mul(loadAt(dy, i, m, 0), loadAt(scale, i, m, 0));
    storeAt(hn::Mul(r, hn::NegMulAdd(hat, mean, g)), dx, i, m);
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(rmsNormRow);
HWY_EXPORT(rmsNormGradRow);

namespace {

/// Longest rows of 16-bit floats.
constexpr int64_t kHalfRow = 4096;

/// Row r of t as f32: where it lies, or in the buffer.
const float *rowOf(const DsTensor &t, int64_t r, int64_t n, float *buffer) {
  if (!isHalf(t))
    return f32(t) + r * n;
  widen(static_cast<DType>(t.dtype), ptr<uint16_t>(t) + r * n, buffer, n);
  return buffer;
}
/// Where row r of t is to be computed, and what brings it there.
float *placeOf(const DsTensor &t, int64_t r, int64_t n, float *buffer) {
  return isHalf(t) ? buffer : f32(t) + r * n;
}
void finish(const DsTensor &t, int64_t r, int64_t n, const float *buffer) {
  if (isHalf(t))
    narrow(static_cast<DType>(t.dtype), buffer, ptr<uint16_t>(t) + r * n, n);
}

struct RowShape {
  int64_t rows = 0, n = 0;
  explicit RowShape(const DsLaunch &l, int x = 0) {
    const DsTensor &t = l.ins[x];
    int axis = normAxis(attr(l, "axis").i, t.rank);
    rows = product(t.dims, 0, axis), n = product(t.dims, axis, t.rank);
  }
  RowShape() = default;
};

/// Whether all rows are contiguous and, of 16-bit floats, short enough for the stack.
bool goesByRows(const DsLaunch &l, int x) {
  bool all = !isHalf(l.ins[x]) || RowShape(l, x).n <= kHalfRow;
  for (int i = 0; i < l.numIns + l.numOuts; ++i)
    all &= isRowMajor(i < l.numIns ? l.ins[i] : l.outs[i - l.numIns]);
  return all;
}

/// (x, scale) -> y, rstd; with an addition (a, b, scale) -> x, y, rstd.
template <bool kAdds> class RmsNorm {
public:
  static bool takes(const DsLaunch &l) { return goesByRows(l, 0); }
  static size_t work(const DsLaunch &) { return 0; }
  const char *prepare(const DsLaunch &l) {
    s = RowShape(l);
    eps = attr(l, "eps").f;
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(rmsNormRow);
    parallelFor(l.threads, s.rows, s.rows * s.n, [&](int64_t begin, int64_t end) {
      alignas(64) float x[kHalfRow], b[kHalfRow], w[kHalfRow];
      const float *scale = rowOf(l.ins[1 + kAdds], 0, s.n, w);
      for (int64_t r = begin; r < end; ++r) {
        if (kAdds) {
          float *sum = placeOf(l.outs[0], r, s.n, x);
          addRow(rowOf(l.ins[0], r, s.n, x), rowOf(l.ins[1], r, s.n, b), sum, s.n);
          finish(l.outs[0], r, s.n, sum);
        }
        float *y = placeOf(l.outs[kAdds], r, s.n, x);
        row(rowOf(kAdds ? l.outs[0] : l.ins[0], r, s.n, x), scale, eps, y,
            f32(l.outs[1 + kAdds]) + r, s.n);
        finish(l.outs[kAdds], r, s.n, y);
      }
    });
    return nullptr;
  }

private:
  RowShape s;
  double eps = 0;
};

class RmsNormGrad {
  struct Blocks {
    int64_t rows, count, stride; // stride: floats from one partial sum to the next
  };
  static Blocks blocksOf(const RowShape &s) {
    int64_t rows = std::max<int64_t>(8, (s.rows + 31) / 32);
    return {rows, (s.rows + rows - 1) / rows, (s.n + 63) / 64 * 64};
  }

public:
  static bool takes(const DsLaunch &l) { return goesByRows(l, 1); }
  static size_t work(const DsLaunch &l) {
    Blocks b = blocksOf(RowShape(l, 1));
    return sizeof(float) * static_cast<size_t>((b.count + 1) * b.stride);
  }
  const char *prepare(const DsLaunch &l) {
    s = RowShape(l, 1);
    blocks = blocksOf(s);
    return l.workBytes < work(l) ? "the plan's workspace is smaller than this kernel needs"
                                 : nullptr;
  }
  const char *run(const DsLaunch &l) {
    auto row = HWY_DYNAMIC_DISPATCH(rmsNormGradRow);
    float *parts = workAt<float>(l, 0), *sum = parts + blocks.count * blocks.stride;
    parallelFor(l.threads, blocks.count, s.rows * s.n, [&](int64_t begin, int64_t end) {
      alignas(64) float dy[kHalfRow], x[kHalfRow], w[kHalfRow], dx[kHalfRow];
      const float *scale = rowOf(l.ins[2], 0, s.n, w);
      for (int64_t b = begin; b < end; ++b) {
        float *part = parts + b * blocks.stride;
        std::fill_n(part, s.n, 0.0f);
        for (int64_t r = b * blocks.rows; r < std::min(s.rows, (b + 1) * blocks.rows); ++r) {
          float *to = placeOf(l.outs[0], r, s.n, dx);
          row(rowOf(l.ins[0], r, s.n, dy), rowOf(l.ins[1], r, s.n, x), scale, f32(l.ins[3])[r], to,
              part, s.n);
          finish(l.outs[0], r, s.n, to);
          if (l.numIns > 4) {
            addRow(rowOf(l.outs[0], r, s.n, dx), rowOf(l.ins[4], r, s.n, x), to, s.n);
            finish(l.outs[0], r, s.n, to);
          }
        }
      }
    });
    std::fill_n(sum, s.n, 0.0f);
    for (int64_t b = 0; b < blocks.count; ++b)
      addRow(sum, parts + b * blocks.stride, sum, s.n);
    if (isHalf(l.outs[1]))
      finish(l.outs[1], 0, s.n, sum);
    else
      std::copy_n(sum, s.n, f32(l.outs[1]));
    return nullptr;
  }

private:
  RowShape s;
  Blocks blocks{};
};

std::array<Step, 2> addSteps(const DsLaunch &) {
  return {Step{&add, {0, 1}, {~0}}, Step{&rmsNorm, {~0, 2}, {~1, ~2}}};
}
std::array<Step, 2> gradSteps(const DsLaunch &) {
  return {Step{&rmsNormGrad, {0, 1, 2, 3}, {~0, ~1}}, Step{&add, {~0, 4}, {~0}}};
}

/// With `other`.
class GradSteps : public HalfSteps<gradSteps, 1> {
public:
  static bool takes(const DsLaunch &l) { return HalfSteps::takes(l) && l.numIns > 4; }
};

} // namespace

const KernelFns rmsNorm = fnsOf<Either<RmsNorm<false>, Widen<Dense<RmsNorm<false>>>>>();
const KernelFns addRmsNorm =
    fnsOf<Either<RmsNorm<true>, Either<HalfSteps<addSteps, 0>, Dense<RmsNorm<true>>>>>();
const KernelFns rmsNormGrad =
    fnsOf<Either<RmsNormGrad, Either<GradSteps, Widen<Dense<RmsNormGrad>>>>>();

} // namespace ds::cpu
#endif
