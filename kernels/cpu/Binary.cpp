// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of two f32 operands, broadcast as in numpy.
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/RowFunctions.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Binary.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

#define DS_BINARY(name, expr)                                                                      \
  struct name {                                                                                    \
    HWY_INLINE VF operator()(VF a, VF b) const { return expr; }                                    \
  };
DS_BINARY(AddOp, hn::Add(a, b))
DS_BINARY(SubOp, hn::Sub(a, b))
DS_BINARY(MulOp, hn::Mul(a, b))
DS_BINARY(DivOp, hn::Div(a, b))
// NaN wins, the first operand's if both are; equal operands give the first.
DS_BINARY(MaxOp,
          hn::IfThenElse(hn::Or(hn::IsNaN(b), hn::Lt(a, b)), hn::IfThenElse(hn::IsNaN(a), a, b), a))
DS_BINARY(MinOp,
          hn::IfThenElse(hn::Or(hn::IsNaN(b), hn::Lt(b, a)), hn::IfThenElse(hn::IsNaN(a), a, b), a))
DS_BINARY(ReluGradOp, hn::IfThenElseZero(hn::Gt(b, set(0.0f)), a))
DS_BINARY(TanhGradOp, hn::Mul(a, hn::NegMulAdd(b, b, set(1.0f))))
#undef DS_BINARY

template <class Op>
void runBinary(const float *a, int stepA, const float *b, int stepB, float *out, int64_t n) {
  Op op;
  if (stepA && stepB)
    return map2(op, a, b, out, n);
  VF va = set(*a), vb = set(*b);
  if (stepA)
    map1([&](VF x) HWY_ATTR { return op(x, vb); }, a, out, n);
  else if (stepB)
    map1([&](VF x) HWY_ATTR { return op(va, x); }, b, out, n);
  else
    std::fill(out, out + n, hn::GetLane(op(va, vb)));
}

BinaryRun binaryRun(Binary k) {
  switch (k) {
  case Binary::Add:
    return runBinary<AddOp>;
  case Binary::Sub:
    return runBinary<SubOp>;
  case Binary::Mul:
    return runBinary<MulOp>;
  case Binary::Div:
    return runBinary<DivOp>;
  case Binary::Max:
    return runBinary<MaxOp>;
  case Binary::Min:
    return runBinary<MinOp>;
  case Binary::ReluGrad:
    return runBinary<ReluGradOp>;
  case Binary::TanhGrad:
    return runBinary<TanhGradOp>;
  case Binary::GeluTanhGrad:
    return runBinary<GeluTanhGrad>;
  case Binary::GeluErfGrad:
    return runBinary<GeluErfGrad>;
  }
  return nullptr;
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(binaryRun);

BinaryRun rowFunction(Binary k) { return HWY_DYNAMIC_DISPATCH(binaryRun)(k); }

template <Binary K> class BinaryKernel {
public:
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireNarrowFloats(l))
      return message;
    first = FloatPort(l.ins[0]);
    second = FloatPort(l.ins[1]);
    result = FloatPort(l.outs[0]);
    Binary kind = K;
    if (K == Binary::GeluTanhGrad && !flag(l, "tanh"))
      kind = Binary::GeluErfGrad;
    range = rowFunction(kind);
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, 2);
  }
  const char *run(const DsLaunch &l) {
    void *out = l.outs[0].data;
    const void *a = l.ins[0].data, *b = l.ins[1].data;
    const int64_t so = loop.inner(0), sa = loop.inner(1), sb = loop.inner(2);
    auto simple = [](int64_t s) { return s == 0 || s == 1; };
    const bool direct =
        so == 1 && simple(sa) && simple(sb) && first.isF32() && second.isF32() && result.isF32();
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      if (direct)
        return range(static_cast<const float *>(a) + off[1], static_cast<int>(sa),
                     static_cast<const float *>(b) + off[2], static_cast<int>(sb),
                     static_cast<float *>(out) + off[0], n);
      float x[FloatPort::kBlock], y[FloatPort::kBlock];
      for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
        int64_t m = std::min(FloatPort::kBlock, n - i);
        first.load(a, off[1] + i * sa, sa, m, x);
        second.load(b, off[2] + i * sb, sb, m, y);
        range(x, 1, y, 1, x, m);
        result.store(x, out, off[0] + i * so, so, m);
      }
    });
    return nullptr;
  }

private:
  Loop loop;
  FloatPort first, second, result;
  BinaryRun range = nullptr;
  int threads = 1;
};

const KernelFns add = fnsOf<BinaryKernel<Binary::Add>>();
const KernelFns sub = fnsOf<BinaryKernel<Binary::Sub>>();
const KernelFns mul = fnsOf<BinaryKernel<Binary::Mul>>();
const KernelFns div = fnsOf<BinaryKernel<Binary::Div>>();
const KernelFns max = fnsOf<BinaryKernel<Binary::Max>>();
const KernelFns min = fnsOf<BinaryKernel<Binary::Min>>();
const KernelFns reluGrad = fnsOf<BinaryKernel<Binary::ReluGrad>>();
const KernelFns tanhGrad = fnsOf<BinaryKernel<Binary::TanhGrad>>();
const KernelFns geluGrad = fnsOf<BinaryKernel<Binary::GeluTanhGrad>>();

} // namespace ds::cpu
#endif
