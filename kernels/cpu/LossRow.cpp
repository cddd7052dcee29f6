// SPDX-License-Identifier: Apache-2.0
//
// The log-sum-exp is f64; exponentials are f32. 16-bit rows are widened block by block.
#include "kernels/cpu/LossRow.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/LossRow.cpp"
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

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(largestOf);
HWY_EXPORT(sumExp);
HWY_EXPORT(scaledExp);

/// f(block, first, m) for the blocks of a row, as f32.
template <class F> static void forBlocks(const LossRow &r, const void *row, const F &f) {
  if (r.port.isF32())
    return f(static_cast<const float *>(row), int64_t{0}, r.n);
  float block[FloatPort::kBlock];
  for (int64_t i = 0; i < r.n; i += FloatPort::kBlock) {
    int64_t m = std::min(FloatPort::kBlock, r.n - i);
    r.port.load(row, i, 1, m, block);
    f(block, i, m);
  }
}

LossRow::LossRow(DType type, int64_t n) : n(n), bytes(n * byteSize(type)) {
  DsTensor t = {};
  t.dtype = static_cast<uint8_t>(type);
  port = FloatPort(t);
}

float LossRow::logit(const void *row, int64_t k) const {
  float x;
  port.load(row, k, 1, 1, &x);
  return x;
}

double LossRow::logSumExp(const void *row) const {
  if (n == 0)
    return -1.0 / 0.0;
  auto largest = HWY_DYNAMIC_DISPATCH(largestOf);
  auto part = HWY_DYNAMIC_DISPATCH(sumExp);
  float top = -1.0f / 0.0f;
  forBlocks(*this, row, [&](const float *x, int64_t, int64_t m) {
    float v = largest(x, m);
    top = v > top || std::isnan(v) ? v : top; // once NaN, it stays
  });
  double sum = 0;
  forBlocks(*this, row, [&](const float *x, int64_t, int64_t m) { sum += part(x, top, m); });
  return static_cast<double>(top) + std::log(sum);
}

void LossRow::gradient(const void *row, int64_t label, float lse, double scale, void *out) const {
  auto fill = HWY_DYNAMIC_DISPATCH(scaledExp);
  const auto x = static_cast<double>(logit(row, label));
  const auto factor = static_cast<float>(scale);
  if (port.isF32()) {
    fill(static_cast<const float *>(row), lse, factor, static_cast<float *>(out), n);
  } else {
    float block[FloatPort::kBlock];
    forBlocks(*this, row, [&](const float *xs, int64_t first, int64_t m) {
      fill(xs, lse, factor, block, m);
      port.store(block, out, first, 1, m);
    });
  }
  const auto hit = static_cast<float>(std::expm1(x - static_cast<double>(lse)) * scale);
  port.store(&hit, out, label, 1, 1);
}

} // namespace ds::cpu
#endif
