// SPDX-License-Identifier: Apache-2.0
//
// Per-target helpers of the Highway kernels: tails, and loops over contiguous f32.
// A tail goes through a full vector in a stack buffer, so that every element takes the same instructions
// wherever it stands. Include after hwy/foreach_target.h.
#include "kernels/cpu/Targets.h"

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#if defined(DS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_CPU_SIMD_INL_H_
#undef DS_CPU_SIMD_INL_H_
#else
#define DS_CPU_SIMD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
using I32 = hn::RebindToSigned<F32>;
using VI = hn::Vec<I32>;
using F64 = hn::ScalableTag<double>;
using VD = hn::Vec<F64>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }

/// The first n < lanes() elements; the other lanes hold pad.
HWY_INLINE VF loadPart(const float *p, int64_t n, float pad) {
  F32 d;
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, pad), d, buffer);
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(d, buffer);
}
HWY_INLINE void storePart(VF v, float *p, int64_t n) {
  F32 d;
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(float));
}

/// The lanes of v added in a fixed order, in f64.
HWY_INLINE double sumLanes(VF v) {
  F32 d;
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  double sum = 0;
  for (int64_t i = 0; i < lanes(); ++i)
    sum += static_cast<double>(buffer[i]);
  return sum;
}

/// out[i] = op(a[i]); out may be a.
template <class Op> HWY_INLINE void map1(const Op &op, const float *a, float *out, int64_t n) {
  F32 d;
  const int64_t N = lanes();
  int64_t i = 0;
  for (; i + N <= n; i += N)
    hn::StoreU(op(hn::LoadU(d, a + i)), d, out + i);
  if (i < n)
    storePart(op(loadPart(a + i, n - i, 1.0f)), out + i, n - i);
}
/// out[i] = op(a[i], b[i])
template <class Op>
HWY_INLINE void map2(const Op &op, const float *a, const float *b, float *out, int64_t n) {
  F32 d;
  const int64_t N = lanes();
  int64_t i = 0;
  for (; i + N <= n; i += N)
    hn::StoreU(op(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i < n)
    storePart(op(loadPart(a + i, n - i, 1.0f), loadPart(b + i, n - i, 1.0f)), out + i, n - i);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
