// SPDX-License-Identifier: Apache-2.0
//
// pow with a base of f32, bf16 or f16. One exponent for all elements that is 1, 2, 3, -1 or +-0.5 becomes arithmetic; anything else
// is the C library's pow, element by element.
#include "kernels/Element.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <cmath>

#ifndef DS_CPU_POWER_KINDS
#define DS_CPU_POWER_KINDS
namespace ds::cpu {
enum class Power { One, Two, Three, Half, MinusOne, MinusHalf, General };
} // namespace ds::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Power.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

// pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf, unlike sqrt's.
HWY_INLINE VF powHalf(VF x) {
  return hn::IfThenElse(hn::Eq(x, set(-1.0f / 0.0f)), set(1.0f / 0.0f),
                        hn::Sqrt(hn::Add(x, set(0.0f))));
}

void powerRange(Power p, const float *a, float *out, int64_t n) {
  switch (p) {
  case Power::Two:
    return map1([](VF x) HWY_ATTR { return hn::Mul(x, x); }, a, out, n);
  case Power::Three:
    return map1([](VF x) HWY_ATTR { return hn::Mul(hn::Mul(x, x), x); }, a, out, n);
  case Power::Half:
    return map1([](VF x) HWY_ATTR { return powHalf(x); }, a, out, n);
  case Power::MinusOne:
    return map1([](VF x) HWY_ATTR { return hn::Div(set(1.0f), x); }, a, out, n);
  case Power::MinusHalf:
    return map1([](VF x) HWY_ATTR { return hn::Div(set(1.0f), powHalf(x)); }, a, out, n);
  default:
    std::memmove(out, a, static_cast<size_t>(n) * sizeof(float));
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(powerRange);

static Power kindOf(double e) {
  return e == 1     ? Power::One
         : e == 2   ? Power::Two
         : e == 3   ? Power::Three
         : e == .5  ? Power::Half
         : e == -1  ? Power::MinusOne
         : e == -.5 ? Power::MinusHalf
                    : Power::General;
}

class Pow {
public:
  const char *prepare(const DsLaunch &l) {
    if (!isNarrowFloat(l.ins[0]) || l.outs[0].dtype != l.ins[0].dtype)
      return "the cpu kernel needs a base of f32, bf16 or f16";
    port = FloatPort(l.ins[0]);
    const char *message = elem::dispatchNumber(l.ins[1].dtype, [&](auto tag) -> const char * {
      using T = typename decltype(tag)::Type;
      exponentAt = [](const void *p, int64_t i) {
        return static_cast<double>(elem::load(static_cast<const T *>(p)[i]));
      };
      return nullptr;
    });
    if (message)
      return message;
    threads = l.threads;
    single = elems(l.ins[1]) == 1;
    return loop.init(l.outs[0], l.ins, 2);
  }
  const char *run(const DsLaunch &l) {
    if (loop.elems() == 0)
      return nullptr;
    void *out = l.outs[0].data;
    const void *a = l.ins[0].data, *e = l.ins[1].data;
    const int64_t so = loop.inner(0), sa = loop.inner(1), se = loop.inner(2);
    Power kind = single ? kindOf(exponentAt(e, 0)) : Power::General;
    auto range = HWY_DYNAMIC_DISPATCH(powerRange);
    const bool direct = kind != Power::General && so == 1 && sa == 1 && port.isF32();
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      if (direct)
        return range(kind, static_cast<const float *>(a) + off[1],
                     static_cast<float *>(out) + off[0], n);
      float x[FloatPort::kBlock];
      for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
        int64_t m = std::min(FloatPort::kBlock, n - i);
        port.load(a, off[1] + i * sa, sa, m, x);
        if (kind != Power::General)
          range(kind, x, x, m);
        else
          for (int64_t k = 0; k < m; ++k)
            x[k] = static_cast<float>(
                std::pow(static_cast<double>(x[k]), exponentAt(e, off[2] + (i + k) * se)));
        port.store(x, out, off[0] + i * so, so, m);
      }
    });
    return nullptr;
  }

private:
  FloatPort port;
  Loop loop;
  double (*exponentAt)(const void *, int64_t) = nullptr;
  bool single = false;
  int threads = 1;
};

const KernelFns pow = fnsOf<Pow>();

} // namespace ds::cpu
#endif
