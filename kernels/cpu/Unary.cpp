// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of one operand of f32, bf16 or f16.
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/RowFunctions.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Unary.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

struct SignOp {
  HWY_INLINE VF operator()(VF x) const {
    VF one = hn::CopySign(set(1.0f), x);
    auto moves = hn::Or(hn::Lt(x, set(0.0f)), hn::Gt(x, set(0.0f))); // not 0, not NaN
    return hn::IfThenElse(moves, one, x);
  }
};
struct ReluOp { // NaN stays
  HWY_INLINE VF operator()(VF x) const {
    return hn::IfThenElse(hn::Or(hn::Gt(x, set(0.0f)), hn::IsNaN(x)), x, set(0.0f));
  }
};

#define DS_UNARY(name, expr)                                                                       \
  struct name {                                                                                    \
    HWY_INLINE VF operator()(VF x) const { return expr; }                                          \
  };
DS_UNARY(NegOp, hn::Neg(x))
DS_UNARY(AbsOp, hn::Abs(x))
DS_UNARY(ExpOp, expOf(x))
DS_UNARY(LogOp, logOf(x))
DS_UNARY(SqrtOp, hn::Sqrt(x))
DS_UNARY(ReciprocalOp, hn::Div(set(1.0f), x))
DS_UNARY(TanhOp, tanhOf(x))
DS_UNARY(SigmoidOp, sigmoidOf(x))
DS_UNARY(ErfOp, erfOf(x))
DS_UNARY(FloorOp, hn::Floor(x))
DS_UNARY(CeilOp, hn::Ceil(x))
DS_UNARY(RoundOp, hn::Round(x))
#undef DS_UNARY

// Not a template argument's loop inline in the switch: one function per op, found once in prepare.
template <class Op> void runUnary(const float *a, float *out, int64_t n) { map1(Op(), a, out, n); }

UnaryRun unaryRun(Unary k) {
  switch (k) {
  case Unary::Neg:
    return runUnary<NegOp>;
  case Unary::Abs:
    return runUnary<AbsOp>;
  case Unary::Sign:
    return runUnary<SignOp>;
  case Unary::Exp:
    return runUnary<ExpOp>;
  case Unary::Log:
    return runUnary<LogOp>;
  case Unary::Sqrt:
    return runUnary<SqrtOp>;
  case Unary::Reciprocal:
    return runUnary<ReciprocalOp>;
  case Unary::Tanh:
    return runUnary<TanhOp>;
  case Unary::Sigmoid:
    return runUnary<SigmoidOp>;
  case Unary::Erf:
    return runUnary<ErfOp>;
  case Unary::Floor:
    return runUnary<FloorOp>;
  case Unary::Ceil:
    return runUnary<CeilOp>;
  case Unary::Round:
    return runUnary<RoundOp>;
  case Unary::Relu:
    return runUnary<ReluOp>;
  case Unary::GeluTanh:
    return runUnary<GeluTanh>;
  case Unary::GeluErf:
    return runUnary<GeluErf>;
  }
  return nullptr;
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(unaryRun);

UnaryRun rowFunction(Unary k) { return HWY_DYNAMIC_DISPATCH(unaryRun)(k); }

/// K, or for gelu the form that the attribute asks for.
template <Unary K> class UnaryKernel {
public:
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireNarrowFloats(l))
      return message;
    in = FloatPort(l.ins[0]);
    result = FloatPort(l.outs[0]);
    Unary kind = K;
    if (K == Unary::GeluTanh && !flag(l, "tanh"))
      kind = Unary::GeluErf;
    range = rowFunction(kind);
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, 1);
  }
  const char *run(const DsLaunch &l) {
    void *out = l.outs[0].data;
    const void *a = l.ins[0].data;
    const int64_t so = loop.inner(0), sa = loop.inner(1);
    const bool direct = so == 1 && sa == 1 && in.isF32() && result.isF32();
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      if (direct)
        return range(static_cast<const float *>(a) + off[1], static_cast<float *>(out) + off[0], n);
      float x[FloatPort::kBlock];
      for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
        int64_t m = std::min(FloatPort::kBlock, n - i);
        in.load(a, off[1] + i * sa, sa, m, x);
        range(x, x, m);
        result.store(x, out, off[0] + i * so, so, m);
      }
    });
    return nullptr;
  }

private:
  Loop loop;
  FloatPort in, result;
  UnaryRun range = nullptr;
  int threads = 1;
};

const KernelFns neg = fnsOf<UnaryKernel<Unary::Neg>>();
const KernelFns abs = fnsOf<UnaryKernel<Unary::Abs>>();
const KernelFns sign = fnsOf<UnaryKernel<Unary::Sign>>();
const KernelFns exp = fnsOf<UnaryKernel<Unary::Exp>>();
const KernelFns log = fnsOf<UnaryKernel<Unary::Log>>();
const KernelFns sqrt = fnsOf<UnaryKernel<Unary::Sqrt>>();
const KernelFns reciprocal = fnsOf<UnaryKernel<Unary::Reciprocal>>();
const KernelFns tanh = fnsOf<UnaryKernel<Unary::Tanh>>();
const KernelFns sigmoid = fnsOf<UnaryKernel<Unary::Sigmoid>>();
const KernelFns erf = fnsOf<UnaryKernel<Unary::Erf>>();
const KernelFns floor = fnsOf<UnaryKernel<Unary::Floor>>();
const KernelFns ceil = fnsOf<UnaryKernel<Unary::Ceil>>();
const KernelFns round = fnsOf<UnaryKernel<Unary::Round>>();
const KernelFns relu = fnsOf<UnaryKernel<Unary::Relu>>();
const KernelFns gelu = fnsOf<UnaryKernel<Unary::GeluTanh>>();

} // namespace ds::cpu
#endif
