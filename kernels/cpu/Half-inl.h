// SPDX-License-Identifier: Apache-2.0
//
// Rounding vectors of f32 to 16 bits, to the nearest, ties to even. Include after hwy/foreach_target.h.
#include "kernels/cpu/Simd-inl.h"

#if defined(DS_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_CPU_HALF_INL_H_
#undef DS_CPU_HALF_INL_H_
#else
#define DS_CPU_HALF_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using H16 = hn::Rebind<hwy::float16_t, F32>;

// Highway's own f16 conversions are the processor's on these targets; its portable ones round differently.
#undef DS_HAVE_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define DS_HAVE_F16 1
#else
#define DS_HAVE_F16 0
#endif

HWY_INLINE hn::Vec<U16> bf16Of(VF v) {
  U32 d;
  auto bits = hn::BitCast(d, v), high = hn::ShiftRight<16>(bits);
  auto even = hn::Add(hn::Set(d, 0x7fff), hn::And(high, hn::Set(d, 1)));
  auto rounded = hn::ShiftRight<16>(hn::Add(bits, even));
  auto nan = hn::Or(high, hn::Set(d, 0x40));
  auto isNan = hn::RebindMask(d, hn::IsNaN(v));
  return hn::TruncateTo(U16(), hn::IfThenElse(isNan, nan, rounded));
}

#if DS_HAVE_F16
HWY_INLINE hn::Vec<U16> f16Of(VF v) { return hn::BitCast(U16(), hn::DemoteTo(H16(), v)); }
#endif

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
