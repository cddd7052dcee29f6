// SPDX-License-Identifier: Apache-2.0
//
// Pointwise groups of f32, bf16, f16 and bool: block by block through the steps, which stay in the cache. Values of a block
// are f32 throughout, bools 0 or 1; those of 16-bit steps are rounded as if they were stored and loaded.
#include "kernels/Pointwise.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/RowFunctions.h"

#ifndef DS_CPU_POINTWISE_KINDS
#define DS_CPU_POINTWISE_KINDS
namespace ds::cpu {
enum class Logic { Eq, Lt, Le, Gt, Ge, And, Or, Xor };
} // namespace ds::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Pointwise.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

// Results are 0 or 1.
#define DS_LOGIC(name, expr)                                                                       \
  case Logic::name:                                                                                \
    return map2([](VF a, VF b) HWY_ATTR { return hn::IfThenElseZero(expr, set(1.0f)); }, a, b,     \
                out, n);
void logicRange(Logic k, const float *a, const float *b, float *out, int64_t n) {
  switch (k) {
    DS_LOGIC(Eq, hn::Eq(a, b))
    DS_LOGIC(Lt, hn::Lt(a, b))
    DS_LOGIC(Le, hn::Le(a, b))
    DS_LOGIC(Gt, hn::Gt(a, b))
    DS_LOGIC(Ge, hn::Ge(a, b))
    DS_LOGIC(And, hn::Ne(hn::Mul(a, b), set(0.0f)))
    DS_LOGIC(Or, hn::Ne(hn::Add(a, b), set(0.0f)))
    DS_LOGIC(Xor, hn::Ne(a, b))
  }
}
#undef DS_LOGIC

// out = v, or 1 - v, for v = whether a is not 0.
void boolRange(bool negated, const float *a, float *out, int64_t n) {
  const VF yes = set(negated ? 0.0f : 1.0f), no = set(negated ? 1.0f : 0.0f);
  map1([=](VF x) HWY_ATTR { return hn::IfThenElse(hn::Ne(x, set(0.0f)), yes, no); }, a, out, n);
}

void selectRange(const float *c, const float *a, const float *b, float *out, int64_t n) {
  F32 d;
  const int64_t N = lanes();
  int64_t i = 0;
  for (; i + N <= n; i += N)
    hn::StoreU(hn::IfThenElse(hn::Ne(hn::LoadU(d, c + i), set(0.0f)), hn::LoadU(d, a + i),
                              hn::LoadU(d, b + i)),
               d, out + i);
  for (; i < n; ++i)
    out[i] = c[i] != 0 ? a[i] : b[i];
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(logicRange);
HWY_EXPORT(boolRange);
HWY_EXPORT(selectRange);

namespace {

constexpr int64_t kBlock = FloatPort::kBlock;

std::optional<Unary> unaryOf(const PointwiseStep &s) {
  switch (s.kind) {
#define DS_CASE(name)                                                                              \
  case OpKind::name:                                                                               \
    return Unary::name;
    DS_CASE(Neg)
    DS_CASE(Abs)
    DS_CASE(Sign)
    DS_CASE(Exp)
    DS_CASE(Log)
    DS_CASE(Sqrt)
    DS_CASE(Reciprocal)
    DS_CASE(Tanh)
    DS_CASE(Sigmoid)
    DS_CASE(Erf)
    DS_CASE(Floor)
    DS_CASE(Ceil)
    DS_CASE(Round)
    DS_CASE(Relu)
#undef DS_CASE
  case OpKind::Gelu:
    return s.attrs.flag("tanh") ? Unary::GeluTanh : Unary::GeluErf;
  default:
    return std::nullopt;
  }
}

std::optional<Binary> binaryOf(const PointwiseStep &s) {
  switch (s.kind) {
#define DS_CASE(name)                                                                              \
  case OpKind::name:                                                                               \
    return Binary::name;
    DS_CASE(Add)
    DS_CASE(Sub)
    DS_CASE(Mul)
    DS_CASE(Div)
    DS_CASE(Max)
    DS_CASE(Min)
    DS_CASE(ReluGrad)
    DS_CASE(TanhGrad)
#undef DS_CASE
  case OpKind::GeluGrad:
    return s.attrs.flag("tanh") ? Binary::GeluTanhGrad : Binary::GeluErfGrad;
  default:
    return std::nullopt;
  }
}

std::optional<Logic> logicOf(const PointwiseStep &s) {
  switch (s.kind) {
#define DS_CASE(name)                                                                              \
  case OpKind::name:                                                                               \
    return Logic::name;
    DS_CASE(Eq)
    DS_CASE(Lt)
    DS_CASE(Le)
    DS_CASE(Gt)
    DS_CASE(Ge)
    DS_CASE(And)
    DS_CASE(Or)
    DS_CASE(Xor)
#undef DS_CASE
  default:
    return std::nullopt;
  }
}

// One step on a block. What it does is found in prepare.
class Step {
public:
  const char *init(const PointwiseLaunch &g, size_t i) {
    const PointwiseStep &s = g.body.steps[i];
    args = s.args;
    kind = s.kind;
    type = g.stepType(i);
    bool moves = kind == OpKind::Where || kind == OpKind::Relu || kind == OpKind::Neg ||
                 kind == OpKind::Abs || kind == OpKind::ReluGrad; // nothing to round
    rounds = !moves && (type == DType::BF16 || type == DType::F16);
    if (auto one = unaryOf(s))
      unary = rowFunction(*one);
    else if (auto two = binaryOf(s))
      binary = rowFunction(*two);
    else if (auto compare = logicOf(s))
      logic = compare;
    else if (kind != OpKind::Not && kind != OpKind::Where && kind != OpKind::Cast)
      return "the cpu kernel lacks a step of the body";
    return nullptr;
  }

  void run(const float *const *values, float *out, int64_t n) const {
    const float *a = values[args[0]], *b = values[args[1]], *c = values[args[2]];
    if (unary)
      unary(a, out, n);
    else if (binary)
      binary(a, 1, b, 1, out, n);
    else if (logic)
      HWY_DYNAMIC_DISPATCH(logicRange)(*logic, a, b, out, n);
    else if (kind == OpKind::Where)
      HWY_DYNAMIC_DISPATCH(selectRange)(a, b, c, out, n);
    else if (type == DType::Bool) // not, or a cast
      HWY_DYNAMIC_DISPATCH(boolRange)(kind == OpKind::Not, a, out, n);
    else if (out != a)
      std::copy(a, a + n, out);
  }

  /// To the step's type and back.
  void round(float *x, int64_t n) const {
    if (!rounds)
      return;
    uint16_t stored[kBlock];
    narrow(type, x, stored, n);
    widen(type, stored, x, n);
  }

private:
  std::array<int, 3> args{};
  OpKind kind{};
  DType type{};
  bool rounds = false;
  UnaryRun unary = nullptr;
  BinaryRun binary = nullptr;
  std::optional<Logic> logic;
};

// FloatPort, and bools as 0 and 1.
class Port {
public:
  Port() = default;
  explicit Port(const DsTensor &t) : isBool(is(t, DType::Bool)), port(t) {}
  bool isF32() const { return !isBool && port.isF32(); }
  void load(const void *data, int64_t at, int64_t stride, int64_t n, float *out) const {
    if (!isBool)
      return port.load(data, at, stride, n, out);
    const uint8_t *x = static_cast<const uint8_t *>(data) + at;
    for (int64_t i = 0; i < n; ++i)
      out[i] = x[i * stride] ? 1.0f : 0.0f;
  }
  void store(const float *x, void *data, int64_t at, int64_t stride, int64_t n) const {
    if (!isBool)
      return port.store(x, data, at, stride, n);
    uint8_t *out = static_cast<uint8_t *>(data) + at;
    for (int64_t i = 0; i < n; ++i)
      out[i * stride] = x[i] != 0;
  }

private:
  bool isBool = false;
  FloatPort port;
};

} // namespace

class Pointwise {
public:
  const char *prepare(const DsLaunch &l) {
    PointwiseLaunch g;
    if (const char *message = readPointwise(l, g))
      return message;
    for (DType t : g.types)
      if (t == DType::F64)
        return "the cpu kernel takes no f64 beside an operand a of another type";
    operands = g.body.operands;
    ports.emplace_back(l.outs[0]);
    for (int i = 0; i < operands; ++i)
      ports.emplace_back(l.ins[i]);
    steps.resize(g.body.steps.size());
    for (size_t i = 0; i < steps.size(); ++i)
      if (const char *message = steps[i].init(g, i))
        return message;
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, l.numIns);
  }

  const char *run(const DsLaunch &l) {
    loop.forEach(threads, [&](const Offsets &off, int64_t n) { along(l, off, n); });
    return nullptr;
  }

private:
  // n elements of the innermost axis.
  void along(const DsLaunch &l, const Offsets &off, int64_t n) const {
    float blocks[kPointwiseOperands + kPointwiseSteps][kBlock];
    const float *values[kPointwiseOperands + kPointwiseSteps];
    auto isDirect = [&](int port) { return ports[port].isF32() && loop.inner(port) == 1; };
    for (int k = 0; k < operands; ++k)
      if (loop.inner(k + 1) == 0) { // one element for all
        values[k] = blocks[k];
        ports[k + 1].load(l.ins[k].data, off[k + 1], 0, std::min(kBlock, n), blocks[k]);
      }
    const int last = operands + static_cast<int>(steps.size()) - 1;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int k = 0; k < operands; ++k) {
        const int64_t s = loop.inner(k + 1), at = off[k + 1] + i * s;
        if (s == 0)
          continue;
        if (!isDirect(k + 1))
          ports[k + 1].load(l.ins[k].data, at, s, m, blocks[k]);
        values[k] = isDirect(k + 1) ? f32(l.ins[k]) + at : blocks[k];
      }
      const int64_t so = loop.inner(0), to = off[0] + i * so;
      for (int v = operands; v <= last; ++v) {
        const Step &step = steps[static_cast<size_t>(v - operands)];
        float *out = v == last && isDirect(0) ? f32(l.outs[0]) + to : blocks[v];
        step.run(values, out, m);
        if (v < last)
          step.round(out, m);
        values[v] = out;
      }
      if (!isDirect(0))
        ports[0].store(values[last], l.outs[0].data, to, so, m);
    }
  }

  int operands = 0;
  std::vector<Port> ports; // the result's, then the operands'
  std::vector<Step> steps;
  Loop loop;
  int threads = 1;
};

const KernelFns pointwise = fnsOf<Pointwise>();

} // namespace ds::cpu
#endif
