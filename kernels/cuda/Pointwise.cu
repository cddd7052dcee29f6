// SPDX-License-Identifier: Apache-2.0
//
// Pointwise groups: each thread goes through the steps with a few elements at once. The result of the step before stays in
// registers; one that is needed later waits in shared memory, in the thread's own place; operands are read where a step has them.
#include "kernels/Pointwise.h"
#include "kernels/cuda/Functions.cuh"
#include "kernels/cuda/Kernels.h"

#include <memory>

#ifdef DS_CUDA_EMULATED
#define DS_GRID_CONSTANT
#else
#define DS_GRID_CONSTANT                                                                           \
  __grid_constant__ // indexed by numbers that are not constants: no copy of it per thread
#endif

namespace ds::cuda {

namespace {

// Where a step's argument is: an operand's number, or one of these.
enum : uint8_t { kLast = 64, kSlot = 128 };
constexpr int kFewSlots = 3;

struct GroupStep {
  OpKind kind;
  DType type;
  bool flag; // gelu's tanh
  uint8_t numArgs, from[3];
  int8_t keep; // the slot that the result goes to, or -1
};

/// A launch's parameters.
struct Group {
  int numSteps, numOperands;
  GroupStep steps[kPointwiseSteps];
  const void *in[kPointwiseOperands];
  void *out;
  DType inType[kPointwiseOperands], outType;
  bool flat[kPointwiseOperands];         // laid out as the result
  Strided<1 + kPointwiseOperands> space; // tensor 0 is the result

  __device__ int64_t offset(int tensor, int64_t i) const {
    int64_t at = 0;
    for (int axis = space.rank - 1; axis >= 0; --axis) {
      int64_t q, r;
      if (i <= 0x7fffffff && space.dims[axis] <= 0x7fffffff) { // 32 bits divide much faster
        auto a = static_cast<uint32_t>(i), b = static_cast<uint32_t>(space.dims[axis]);
        q = a / b, r = a % b;
      } else {
        q = i / space.dims[axis], r = i % space.dims[axis];
      }
      at += r * space.strides[tensor][axis];
      i = q;
    }
    return at;
  }
};

template <typename V, int W, typename T>
__device__ void loadElements(const void *data, int64_t at, bool repeats, V (&x)[W]) {
  const T *p = static_cast<const T *>(data) + at;
  if (repeats || W == 1) {
    const V v = static_cast<V>(value(*p));
    for (int w = 0; w < W; ++w)
      x[w] = v;
    return;
  }
  const auto pack = packAt<W>(p, 0, true);
  for (int w = 0; w < W; ++w)
    x[w] = static_cast<V>(value(pack.of[w]));
}

template <typename V, int W, typename T>
__device__ void storeElements(void *data, int64_t at, const V (&x)[W]) {
  Pack<T, W> pack;
  for (int w = 0; w < W; ++w)
    pack.of[w] = rounded<T>(x[w]);
  putPack(static_cast<T *>(data), at, true, pack);
}

// V is double for f64 and bool, float for all others.
template <typename V, int W> __device__ void load(const Group &g, int k, int64_t i, V (&x)[W]) {
  const bool repeats = !g.flat[k] && g.space.repeats(k + 1);
  const int64_t at = g.flat[k] ? i : g.offset(k + 1, i);
  if (g.inType[k] == DType::Bool)
    return loadElements<V, W, Bool>(g.in[k], at, repeats, x);
  if constexpr (std::is_same_v<V, double>) {
    loadElements<V, W, double>(g.in[k], at, repeats, x);
  } else if (g.inType[k] == DType::F32) {
    loadElements<V, W, float>(g.in[k], at, repeats, x);
  } else if (g.inType[k] == DType::BF16) {
    loadElements<V, W, BF16>(g.in[k], at, repeats, x);
  } else {
    loadElements<V, W, F16>(g.in[k], at, repeats, x);
  }
}

template <typename V, int W> __device__ void store(const Group &g, int64_t i, const V (&x)[W]) {
  const int64_t at = g.offset(0, i);
  if (g.outType == DType::Bool)
    return storeElements<V, W, Bool>(g.out, at, x);
  if constexpr (std::is_same_v<V, double>) {
    storeElements<V, W, double>(g.out, at, x);
  } else if (g.outType == DType::F32) {
    storeElements<V, W, float>(g.out, at, x);
  } else if (g.outType == DType::BF16) {
    storeElements<V, W, BF16>(g.out, at, x);
  } else {
    storeElements<V, W, F16>(g.out, at, x);
  }
}

template <typename V, int W, typename F> __device__ void apply(F f, V (&x)[W]) {
  for (int w = 0; w < W; ++w)
    x[w] = static_cast<V>(f(x[w]));
}
template <typename V, int W, typename F> __device__ void apply(F f, V (&x)[W], const V (&y)[W]) {
  for (int w = 0; w < W; ++w)
    x[w] = static_cast<V>(f(x[w], y[w]));
}

// x becomes the step's result, unrounded. Bools are 0 and 1.
template <typename V, int W>
__device__ void compute(const GroupStep &s, V (&x)[W], const V (&y)[W], const V (&z)[W]) {
  switch (s.kind) {
#define DS_CASE(kind, function)                                                                    \
  case OpKind::kind:                                                                               \
    return apply(function##Fn(), x);
    DS_CASE(Neg, neg)
    DS_CASE(Abs, abs)
    DS_CASE(Sign, sign)
    DS_CASE(Exp, expOf)
    DS_CASE(Log, logOf)
    DS_CASE(Sqrt, sqrtOf)
    DS_CASE(Reciprocal, reciprocal)
    DS_CASE(Tanh, tanhOf)
    DS_CASE(Sigmoid, sigmoid)
    DS_CASE(Erf, erfOf)
    DS_CASE(Floor, floorOf)
    DS_CASE(Ceil, ceilOf)
    DS_CASE(Round, roundOf)
    DS_CASE(Relu, relu)
#undef DS_CASE
#define DS_CASE(kind, function)                                                                    \
  case OpKind::kind:                                                                               \
    return apply(function##Fn(), x, y);
    DS_CASE(Add, add)
    DS_CASE(Sub, sub)
    DS_CASE(Mul, mul)
    DS_CASE(Div, quotient)
    DS_CASE(Max, maxOf)
    DS_CASE(Min, minOf)
    DS_CASE(ReluGrad, reluGrad)
    DS_CASE(TanhGrad, tanhGrad)
    DS_CASE(Eq, eq)
    DS_CASE(Lt, lt)
    DS_CASE(Le, le)
    DS_CASE(Gt, gt)
    DS_CASE(Ge, ge)
    DS_CASE(And, andOf)
    DS_CASE(Or, orOf)
    DS_CASE(Xor, xorOf)
#undef DS_CASE
  case OpKind::Gelu:
    return apply(GeluFn{s.flag}, x);
  case OpKind::GeluGrad:
    return apply(GeluGradFn{s.flag}, x, y);
  case OpKind::Not:
    return apply(isZeroFn(), x);
  case OpKind::Where:
    for (int w = 0; w < W; ++w)
      x[w] = x[w] != V(0) ? y[w] : z[w];
    return;
  default: // cast
    if (s.type == DType::Bool)
      for (int w = 0; w < W; ++w)
        x[w] = x[w] != V(0) ? V(1) : V(0);
  }
}

template <typename T, typename V, int W> __device__ void roundTo(V (&x)[W]) {
  for (int w = 0; w < W; ++w)
    x[w] = static_cast<V>(value(rounded<T>(x[w])));
}

template <typename V, int W, typename S>
__device__ void fetch(const Group &g, uint8_t from, int64_t i, const V (&last)[W], const S &slots,
                      V (&x)[W]) {
  if (from == kLast) {
    for (int w = 0; w < W; ++w)
      x[w] = last[w];
  } else if (from < kLast) {
    load(g, from, i, x);
  } else {
    for (int w = 0; w < W; ++w)
      x[w] = slots[((from - kSlot) * W + w) * kBlock + threadIdx.x];
  }
}

template <typename V, int W, int kSlots>
__global__ void pointwiseKernel(const DS_GRID_CONSTANT Group g) {
  DS_SHARED(V, slots, (kSlots > 0 ? kSlots * W * kBlock : 1));
  for (int64_t i = firstIndex() * W; i < g.space.count; i += indexStep() * W) {
    V last[W] = {};
    for (int k = 0; k < g.numSteps; ++k) {
      const GroupStep &s = g.steps[k];
      V x[W], y[W] = {}, z[W] = {};
      fetch(g, s.from[0], i, last, slots, x);
      if (s.numArgs > 1)
        fetch(g, s.from[1], i, last, slots, y);
      if (s.numArgs > 2)
        fetch(g, s.from[2], i, last, slots, z);
      compute(s, x, y, z);
      if (s.type == DType::BF16)
        roundTo<BF16>(x);
      else if (s.type == DType::F16)
        roundTo<F16>(x);
      for (int w = 0; w < W; ++w)
        last[w] = x[w];
      if (kSlots > 0 && s.keep >= 0)
        for (int w = 0; w < W; ++w)
          slots[(s.keep * W + w) * kBlock + threadIdx.x] = x[w];
    }
    store(g, i, last);
  }
}

// A launch, but for addresses.
struct PointwiseState {
  Group group{};
  int slots = 0;
  bool isF64 = false, packs = false;
};

constexpr int kPack = 8; // elements

// Which values wait in which slot. A value that the next step alone needs waits in none.
void placeValues(const PointwiseLaunch &l, PointwiseState &s) {
  const auto &steps = l.body.steps;
  const int operands = l.body.operands, count = static_cast<int>(steps.size());
  int lastUse[kPointwiseSteps] = {}, slotOf[kPointwiseSteps], busy[kPointwiseSteps];
  std::fill(busy, busy + kPointwiseSteps, -1); // until which step
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < steps[i].numArgs; ++k)
      if (steps[i].args[k] >= operands)
        lastUse[steps[i].args[k] - operands] = i;
  for (int i = 0; i < count; ++i) {
    GroupStep &to = s.group.steps[i];
    to.kind = steps[i].kind;
    to.type = l.stepType(static_cast<size_t>(i));
    to.flag = steps[i].attrs.flag("tanh");
    to.numArgs = static_cast<uint8_t>(steps[i].numArgs);
    for (int k = 0; k < steps[i].numArgs; ++k) {
      int v = steps[i].args[k];
      to.from[k] = static_cast<uint8_t>(v < operands            ? v
                                        : v == operands + i - 1 ? kLast
                                                                : kSlot + slotOf[v - operands]);
    }
    to.keep = -1;
    if (lastUse[i] > i + 1) {
      int slot = static_cast<int>(
          std::find_if(busy, busy + kPointwiseSteps, [&](int until) { return until <= i; }) - busy);
      busy[slot] = lastUse[i];
      slotOf[i] = slot;
      to.keep = static_cast<int8_t>(slot);
      s.slots = std::max(s.slots, slot + 1);
    }
  }
}

// Of what lies in packs.
bool isAligned(const Group &g) {
  auto isAt = [](const void *p, DType t) {
    return reinterpret_cast<uintptr_t>(p) %
               static_cast<uintptr_t>(std::min<int64_t>(16, kPack * byteSize(t))) ==
           0;
  };
  bool aligned = isAt(g.out, g.outType);
  for (int k = 0; k < g.numOperands; ++k)
    aligned = aligned && (g.space.repeats(k + 1) || isAt(g.in[k], g.inType[k]));
  return aligned;
}

} // namespace

const char *pointwisePrepare(const DsLaunch *l, void **state) {
  std::unique_ptr<PointwiseState> s(new (std::nothrow) PointwiseState);
  PointwiseLaunch launch;
  if (!s)
    return "out of memory";
  if (const char *message = readPointwise(*l, launch))
    return message;
  Group &g = s->group;
  g.numSteps = static_cast<int>(launch.body.steps.size());
  g.numOperands = l->numIns;
  const DsTensor &out = l->outs[0];
  g.outType = static_cast<DType>(out.dtype);
  for (DType t : launch.types)
    s->isF64 = s->isF64 || t == DType::F64;
  for (int k = 0; k < l->numIns; ++k)
    g.inType[k] = launch.typeOf(k);
  for (int axis = 0; axis < out.rank; ++axis) {
    int64_t strides[1 + kPointwiseOperands] = {out.strides[axis]};
    for (int k = 0; k < l->numIns; ++k)
      strides[k + 1] = broadcastStride(l->ins[k], axis, out.rank);
    g.space.add(out.dims[axis], strides);
  }
  for (int k = 0; k < l->numIns; ++k)
    g.flat[k] = g.space.rank == 0 ||
                (g.space.rank == 1 && g.space.strides[0][0] == 1 && g.space.strides[k + 1][0] == 1);
  placeValues(launch, *s);
  s->packs = g.space.liesInPacks(kPack, 1 + g.numOperands) && !s->isF64 && s->slots <= kFewSlots;
  *state = s.release();
  return nullptr;
}

void pointwiseDestroy(void *state) { delete static_cast<PointwiseState *>(state); }
size_t pointwiseWork(const DsLaunch *) { return 0; }
const char *pointwiseNote(void *) { return nullptr; }

const char *pointwise(const DsLaunch *l, void *state) {
  const auto &s = *static_cast<PointwiseState *>(state);
  Group g = s.group;
  if (g.space.count == 0)
    return nullptr;
  g.out = l->outs[0].data;
  for (int k = 0; k < g.numOperands; ++k)
    g.in[k] = l->ins[k].data;
  auto go = [&](auto kernel, int perThread) {
    return launch(kernel, gridFor(g.space.count, kBlock * perThread), dim3(kBlock), 0, streamOf(*l),
                  g);
  };
  if (s.isF64)
    return go(pointwiseKernel<double, 1, kPointwiseSteps>, 1);
  if (!s.packs || !isAligned(g))
    return go(pointwiseKernel<float, 1, kPointwiseSteps>, 1);
  return s.slots == 0 ? go(pointwiseKernel<float, kPack, 0>, kPack)
                      : go(pointwiseKernel<float, kPack, kFewSlots>, kPack);
}

} // namespace ds::cuda
