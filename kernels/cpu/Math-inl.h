// SPDX-License-Identifier: Apache-2.0
//
// f32 transcendental functions, per Highway target. Coefficients are weighted minimax fits of our own.
// Largest error over all floats in the stated range, in units in the last place, as measured by
// CpuMathTest: exp 1, log 1, tanh 2, sigmoid 2, erf 2. Gelu and its gradient are composed of these without
// cancellation: they keep relative accuracy in the negative tail.
#include "kernels/cpu/Simd-inl.h"

#if defined(DS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_CPU_MATH_INL_H_
#undef DS_CPU_MATH_INL_H_
#else
#define DS_CPU_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

HWY_INLINE VF set(float v) { return hn::Set(F32(), v); }

/// c[0] + x * (c[1] + x * ...)
template <size_t N> HWY_INLINE VF poly(VF x, const float (&c)[N]) {
  VF y = set(c[N - 1]);
  for (size_t i = N - 1; i-- > 0;)
    y = hn::MulAdd(y, x, set(c[i]));
  return y;
}

/// 2^n for integers n in [-126, 127].
HWY_INLINE VF pow2(VI n) {
  I32 di;
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

HWY_INLINE VF expOf(VF x) {
  // Beyond these, the result is inf or 0 anyway; NaN stays (comparisons with it are false).
  VF c = hn::IfThenElse(hn::Gt(x, set(89.0f)), set(89.0f), x);
  c = hn::IfThenElse(hn::Lt(c, set(-104.0f)), set(-104.0f), c);
  VF n = hn::Round(hn::Mul(c, set(1.44269504f)));
  VF r = hn::NegMulAdd(n, set(0.693359375f), c); // exact: the constant has 9 bits
  r = hn::NegMulAdd(n, set(-2.12194440e-4f), r);
  static constexpr float k[] = {0.5f,           0.1666666716f,   0.04166626558f,
                                0.00833327137f, 0.001394634368f, 0.0001991452882f};
  VF e = hn::MulAdd(hn::Mul(r, r), poly(r, k), r);
  e = hn::Add(e, set(1.0f));
  // Two factors, so that results down to the smallest subnormal are reached.
  VI m = hn::ConvertTo(I32(), hn::IfThenZeroElse(hn::IsNaN(n), n));
  VI half = hn::ShiftRight<1>(m);
  return hn::Mul(hn::Mul(e, pow2(half)), pow2(hn::Sub(m, half)));
}

HWY_INLINE VF logOf(VF x) {
  F32 d;
  I32 di;
  auto tiny = hn::Lt(x, set(1.17549435e-38f));
  VF y = hn::IfThenElse(tiny, hn::Mul(x, set(33554432.0f)), x); // 2^25
  VI bits = hn::BitCast(di, y);
  // Exponent so that the fraction is in [sqrt(1/2), sqrt(2)).
  VI e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  VF f = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  f = hn::Sub(f, set(1.0f));
  VF n = hn::ConvertTo(d, e);
  n = hn::IfThenElse(tiny, hn::Sub(n, set(25.0f)), n);
  static constexpr float k[] = {0.3333331347f,  -0.2500000894f, 0.2000212222f,
                                -0.1666799635f, 0.1421948969f,  -0.1240552291f,
                                0.118885614f,   -0.1167621836f, 0.06746468693f};
  VF z = hn::Mul(f, f);
  VF tail = hn::MulAdd(hn::Mul(z, f), poly(f, k), hn::Mul(n, set(-2.12194440e-4f)));
  tail = hn::NegMulAdd(set(0.5f), z, tail);
  VF r = hn::MulAdd(n, set(0.693359375f), hn::Add(f, tail));
  const float inf = 1.0f / 0.0f;
  r = hn::IfThenElse(hn::Eq(x, set(inf)), x, r);
  r = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), set(-inf), r);
  auto bad = hn::Or(hn::Lt(x, hn::Zero(d)), hn::IsNaN(x));
  return hn::IfThenElse(bad, hn::Set(d, __builtin_nanf("")), r);
}

HWY_INLINE VF tanhOf(VF x) {
  VF a = hn::Abs(x), z = hn::Mul(x, x);
  static constexpr float k[] = {-0.3333328366f, 0.1333148926f, -0.0537433885f, 0.0206503719f,
                                -0.005716938991f};
  VF small = hn::MulAdd(hn::Mul(x, z), poly(z, k), x);
  VF e = expOf(hn::Add(a, a));
  VF large = hn::Sub(set(1.0f), hn::Div(set(2.0f), hn::Add(e, set(1.0f))));
  return hn::IfThenElse(hn::Lt(a, set(0.625f)), small, hn::CopySign(large, x));
}

HWY_INLINE VF sigmoidOf(VF x) {
  VF e = expOf(hn::Neg(hn::Abs(x))); // in (0, 1]: nothing overflows
  VF top = hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), e, set(1.0f));
  return hn::Div(top, hn::Add(set(1.0f), e));
}

/// erfc(t) for t >= 0.85 with relative accuracy, as erfcx(t) * exp(-t^2).
HWY_INLINE VF erfcTail(VF t) {
  t = hn::IfThenElse(hn::Gt(t, set(10.5f)), set(10.5f), t); // 0 from here on
  VF v = hn::Div(set(1.0f), hn::Add(t, set(1.5f)));
  static constexpr float k[] = {-1.95248367e-6f, 0.5643053055f, 0.84335196f,
                                1.029037118f,    0.2684609294f, 1.518314362f,
                                -9.202685356f,   12.17343140f,  -5.496463299f};
  VF s = hn::Mul(t, t), low = hn::MulSub(t, t, s); // t^2 = s + low
  VF e = expOf(hn::Neg(s));
  return hn::Mul(poly(v, k), hn::NegMulAdd(e, low, e));
}
/// erf(x) for |x| <= 0.9.
HWY_INLINE VF erfSmall(VF x) {
  static constexpr float k[] = {0.12837922573f,  -0.376126349f,     0.1128371507f,  -0.02686051093f,
                                0.005203864537f, -0.0008175704279f, 8.513382636e-5f};
  return hn::MulAdd(x, poly(hn::Mul(x, x), k), x);
}
HWY_INLINE VF erfOf(VF x) {
  VF a = hn::Abs(x);
  VF large = hn::CopySign(hn::Sub(set(1.0f), erfcTail(a)), x);
  return hn::IfThenElse(hn::Lt(a, set(0.875f)), erfSmall(x), large);
}
/// The normal distribution function.
HWY_INLINE VF phiOf(VF x) {
  VF z = hn::Mul(x, set(0.707106781f)), a = hn::Abs(z);
  VF half = hn::Mul(set(0.5f), erfcTail(a));
  VF large = hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), half, hn::Sub(set(1.0f), half));
  VF small = hn::MulAdd(set(0.5f), erfSmall(z), set(0.5f));
  return hn::IfThenElse(hn::Lt(a, set(0.875f)), small, large);
}

/// 2 * sqrt(2/pi) * (x + 0.044715 x^3): gelu's tanh form is x * sigmoid of this.
HWY_INLINE VF geluArg(VF x) {
  VF z = hn::Mul(x, x);
  return hn::Mul(x, hn::MulAdd(z, set(0.0713548162726f), set(1.59576912161f)));
}

struct GeluTanh {
  HWY_INLINE VF operator()(VF x) const {
    return hn::Div(x, hn::Add(set(1.0f), expOf(hn::Neg(geluArg(x)))));
  }
};
struct GeluErf {
  HWY_INLINE VF operator()(VF x) const { return hn::Mul(x, phiOf(x)); }
};
struct GeluTanhGrad {
  HWY_INLINE VF operator()(VF dy, VF x) const {
    VF w = hn::Neg(geluArg(x));
    w = hn::IfThenElse(hn::Gt(w, set(87.0f)), set(87.0f), w); // e stays finite
    VF e = expOf(w);
    VF s = hn::Div(set(1.0f), hn::Add(set(1.0f), e));
    VF du = hn::MulAdd(hn::Mul(x, x), set(0.2140644488178f), set(1.59576912161f));
    VF slope = hn::Mul(hn::Mul(x, du), hn::Mul(e, s));
    return hn::Mul(dy, hn::MulAdd(slope, s, s));
  }
};
struct GeluErfGrad {
  HWY_INLINE VF operator()(VF dy, VF x) const {
    VF density = hn::Mul(set(0.3989422804f), expOf(hn::Mul(set(-0.5f), hn::Mul(x, x))));
    return hn::Mul(dy, hn::MulAdd(x, density, phiOf(x)));
  }
};

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
