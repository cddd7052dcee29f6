// SPDX-License-Identifier: Apache-2.0
//
// adam, sgd and sum_squares on f32 shards, bit for bit what ref computes: kernels/OptimizerMath.h translated line
// by line, and ir/Bins.h's chunk sums with their eight f64 lanes. Runs are cut into pieces for the threads;
// padding, which is in no run, is not updated.
#include "ir/Bins.h"
#include "ir/Type.h"
#include "kernels/Element.h"
#include "kernels/OptimizerMath.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"

#include <algorithm>
#include <bit>
#include <mutex>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Update.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "kernels/cpu/Half-inl.h"
#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

// Only x86 from AVX2 on and Arm have a fused MulAdd; elsewhere std::fma keeps the bits.
#undef DS_CPU_FUSED
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define DS_CPU_FUSED 0
#else
#define DS_CPU_FUSED 1
#endif

/// kTo: the type of `rounded`, which the new p goes to, too; f32: nothing does.
template <DType kTo>
void adamVectors(const AdamScalars<float> &s, const float *g, float *p, float *m, float *v,
                 uint16_t *rounded, int64_t n) {
  int64_t i = 0;
#if DS_CPU_FUSED
  F32 d;
  const int64_t N = lanes();
  const VF clip = set(s.clip), l2 = set(s.l2), b1 = set(s.b1), restB1 = set(s.restB1);
  const VF b2 = set(s.b2), restB2 = set(s.restB2), root = set(s.rootCorrect2), eps = set(s.eps);
  const VF keep = set(s.keep), step = set(s.step);
  constexpr bool kHasVectors = kTo != DType::F16 || DS_HAVE_F16;
  for (; kHasVectors && i + N <= n; i += N) {
    VF x = hn::LoadU(d, p + i);
    VF grad = hn::Mul(hn::LoadU(d, g + i), clip);
    grad = hn::MulAdd(l2, x, grad);
    VF first = hn::MulAdd(b1, hn::LoadU(d, m + i), hn::Mul(restB1, grad));
    VF second = hn::MulAdd(b2, hn::LoadU(d, v + i), hn::Mul(hn::Mul(restB2, grad), grad));
    VF denominator = hn::MulAdd(hn::Sqrt(second), root, eps);
    x = hn::MulAdd(step, hn::Div(first, denominator), hn::Mul(x, keep));
    hn::StoreU(x, d, p + i);
    hn::StoreU(first, d, m + i);
    hn::StoreU(second, d, v + i);
    if constexpr (kTo == DType::BF16)
      hn::StoreU(bf16Of(x), U16(), rounded + i);
#if DS_HAVE_F16
    if constexpr (kTo == DType::F16)
      hn::StoreU(f16Of(x), U16(), rounded + i);
#endif
  }
#endif
  for (; i < n; ++i) {
    adamElement(s, g[i], p[i], m[i], v[i]);
    if constexpr (kTo == DType::BF16)
      rounded[i] = elem::BF16::from(static_cast<double>(p[i])).bits;
    if constexpr (kTo == DType::F16)
      rounded[i] = elem::F16::from(static_cast<double>(p[i])).bits;
  }
}

void adamRange(const AdamScalars<float> &s, const float *g, float *p, float *m, float *v, DType to,
               uint16_t *rounded, int64_t n) {
  if (to == DType::BF16)
    adamVectors<DType::BF16>(s, g, p, m, v, rounded, n);
  else if (to == DType::F16)
    adamVectors<DType::F16>(s, g, p, m, v, rounded, n);
  else
    adamVectors<DType::F32>(s, g, p, m, v, rounded, n);
}

void sgdRange(const SgdScalars<float> &s, bool nesterov, const float *g, float *p, float *m,
              int64_t n) {
  int64_t i = 0;
#if DS_CPU_FUSED
  F32 d;
  const int64_t N = lanes();
  const VF clip = set(s.clip), l2 = set(s.l2), momentum = set(s.momentum), step = set(s.step);
  for (; i + N <= n; i += N) {
    VF x = hn::LoadU(d, p + i);
    VF grad = hn::Mul(hn::LoadU(d, g + i), clip);
    grad = hn::MulAdd(l2, x, grad);
    VF moment = hn::MulAdd(momentum, hn::LoadU(d, m + i), grad);
    VF direction = nesterov ? hn::MulAdd(momentum, moment, grad) : moment;
    hn::StoreU(hn::MulAdd(step, direction, x), d, p + i);
    hn::StoreU(moment, d, m + i);
  }
#endif
  for (; i < n; ++i)
    sgdElement(s, nesterov, g[i], p[i], m[i]);
}

/// Sums of `count` whole chunks, one after the other: prefetching likes one stream, and the processor overlaps
/// the chunks by itself.
void chunkSums(const float *x, int64_t count, double *sums) {
  for (int64_t c = 0; c < count; ++c, x += kQuantum) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    constexpr int kHalf = HWY_TARGET == HWY_AVX3 ? 8 : 4; // f64 lanes of a vector
    const hn::FixedTag<double, kHalf> d;
    const hn::Rebind<float, decltype(d)> half;
    auto low = hn::Zero(d), high = low;
    if (c + 8 < count) // the processor's own prefetching falls behind this loop
      for (int64_t i = 0; i < kQuantum; i += 16)
        hwy::Prefetch(x + 8 * kQuantum + i);
    for (int64_t i = 0; i < kQuantum; i += 8) {
      auto p = hn::PromoteTo(d, hn::LoadU(half, x + i));
      low = hn::Add(low, hn::Mul(p, p));
      if (kHalf == 4) {
        auto q = hn::PromoteTo(d, hn::LoadU(half, x + i + 4));
        high = hn::Add(high, hn::Mul(q, q));
      }
    }
    double v[8];
    hn::StoreU(low, d, v);
    if (kHalf == 4)
      hn::StoreU(high, d, v + 8 - kHalf);
    sums[c] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#else
    sums[c] = chunkSumSquares(x, kQuantum);
#endif
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(adamRange);
HWY_EXPORT(sgdRange);
HWY_EXPORT(chunkSums);

static constexpr int64_t kPiece = 8192; // a multiple of kQuantum: pieces are whole chunks

/// body(begin, end, group) on pieces of operand i's runs; without runs it is one run of group 0. Each
/// thread starts with state() and ends with done(state).
template <class State, class Body, class Done>
static void forEachPiece(const DsLaunch &l, int i, const State &state, const Body &body,
                         const Done &done) {
  const DsRun whole{0, elems(l.ins[i]), 0};
  const bool given = l.runs && l.runs[i];
  const DsRun *runs = given ? l.runs[i] : &whole;
  const int32_t numRuns = given ? l.numRuns[i] : 1;
  int64_t pieces = 0, count = 0;
  for (int32_t r = 0; r < numRuns; ++r) {
    pieces += (runs[r].end - runs[r].begin + kPiece - 1) / kPiece;
    count += runs[r].end - runs[r].begin;
  }
  parallelFor(l.threads, pieces, count, [&](int64_t begin, int64_t end) {
    auto mine = state();
    int64_t first = 0; // number of the run's first piece
    for (int32_t r = 0; r < numRuns && first < end; ++r) {
      const int64_t n = (runs[r].end - runs[r].begin + kPiece - 1) / kPiece;
      for (int64_t k = std::max<int64_t>(begin - first, 0); k < std::min(n, end - first); ++k) {
        int64_t from = runs[r].begin + k * kPiece;
        body(mine, from, std::min(runs[r].end, from + kPiece), runs[r].group);
      }
      first += n;
    }
    done(mine);
  });
}

static bool skips(const DsTensor &t) { return *ptr<uint8_t>(t) != 0; }

/// The first `count` operands are contiguous f32 vectors.
static const char *requireShards(const DsLaunch &l, int count) {
  for (int i = 0; i < count; ++i)
    if (!is(l.ins[i], DType::F32) || !isRowMajor(l.ins[i]))
      return "the cpu kernel needs contiguous f32 shards";
  return nullptr;
}

/// adam, and adam_round, whose first result is all of p in 16 bits.
template <bool kRounds> class Adam {
  static constexpr int kFirst = kRounds ? 1 : 0; // result p

public:
  const char *prepare(const DsLaunch &l) {
    config = {attr(l, "b1").f, attr(l, "b2").f, attr(l, "eps").f, flag(l, "decoupled"),
              flag(l, "bias_correction")};
    if (kRounds && !(isHalf(l.outs[0]) && isRowMajor(l.outs[0])))
      return "the cpu kernel needs a contiguous bf16 or f16 result";
    return requireShards(l, 4);
  }
  const char *run(const DsLaunch &l) {
    if (skips(l.ins[7])) {
      if (kRounds)
        parallelFor(l.threads, elems(l.ins[1]), elems(l.ins[1]),
                    [&](int64_t begin, int64_t end) { round(l, begin, end); });
      return nullptr;
    }
    auto range = HWY_DYNAMIC_DISPATCH(adamRange);
    const auto to = static_cast<DType>(l.outs[0].dtype);
    const float *g = f32(l.ins[0]);
    float *p = f32(l.outs[kFirst]), *m = f32(l.outs[kFirst + 1]), *v = f32(l.outs[kFirst + 2]);
    const double *lr = ptr<double>(l.ins[4]), *decay = ptr<double>(l.ins[5]);
    const double clip = *ptr<double>(l.ins[6]);
    const double b1t = *ptr<double>(l.ins[8]), b2t = *ptr<double>(l.ins[9]);
    struct State {
      AdamScalars<float> s{};
      int32_t group = -1;
    };
    forEachPiece(
        l, 1, [] { return State(); },
        [&](State &t, int64_t begin, int64_t end, int32_t group) {
          if (t.group != group)
            t = {adamScalars<float>(config, lr[group], decay[group], clip, b1t, b2t), group};
          range(t.s, g + begin, p + begin, m + begin, v + begin, to,
                kRounds ? ptr<uint16_t>(l.outs[0]) + begin : nullptr, end - begin);
        },
        [](State &) {});
    if (kRounds)
      roundBetweenRuns(l);
    return nullptr;
  }

private:
  static void round(const DsLaunch &l, int64_t begin, int64_t end) {
    narrow(static_cast<DType>(l.outs[0].dtype), f32(l.outs[1]) + begin,
           ptr<uint16_t>(l.outs[0]) + begin, end - begin);
  }
  static void roundBetweenRuns(const DsLaunch &l) {
    if (!l.runs || !l.runs[1])
      return;
    int64_t at = 0;
    for (int32_t r = 0; r < l.numRuns[1]; ++r) {
      const DsRun &run = l.runs[1][r];
      if (at < run.begin)
        round(l, at, run.begin);
      at = std::max(at, run.end);
    }
    round(l, at, elems(l.outs[1]));
  }

  AdamConfig config{};
};

class Sgd {
public:
  const char *prepare(const DsLaunch &l) {
    momentum = attr(l, "momentum").f;
    nesterov = flag(l, "nesterov");
    return requireShards(l, 3);
  }
  const char *run(const DsLaunch &l) {
    if (skips(l.ins[6]))
      return nullptr;
    auto range = HWY_DYNAMIC_DISPATCH(sgdRange);
    const float *g = f32(l.ins[0]);
    float *p = f32(l.outs[0]), *m = f32(l.outs[1]);
    const double *lr = ptr<double>(l.ins[3]), *decay = ptr<double>(l.ins[4]);
    const double clip = *ptr<double>(l.ins[5]);
    forEachPiece(
        l, 1, [] { return 0; },
        [&](int, int64_t begin, int64_t end, int32_t group) {
          SgdScalars<float> s = sgdScalars<float>(momentum, lr[group], decay[group], clip);
          range(s, nesterov, g + begin, p + begin, m + begin, end - begin);
        },
        [](int) {});
    return nullptr;
  }

private:
  double momentum = 0;
  bool nesterov = false;
};

/// addToBins for what chunk sums usually are: positive and normal. The same integers, without libm.
static void addNormal(int64_t *bins, double v) {
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  const int exponent = static_cast<int>(bits >> 52);
  if (exponent == 0 || exponent >= 2047)
    return addToBins(bins, v);
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const int low = exponent - 1075 + 1088; // bit position of the mantissa's bit 0
  const int bin = low / 32;
  if (bin + 3 > kBins)
    return addToBins(bins, v);
  const unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << (low % 32);
  bins[bin] += static_cast<int64_t>(static_cast<uint64_t>(wide) & 0xffffffffu);
  bins[bin + 1] += static_cast<int64_t>(static_cast<uint64_t>(wide >> 32) & 0xffffffffu);
  bins[bin + 2] += static_cast<int64_t>(static_cast<uint64_t>(wide >> 64) & 0xffffffffu);
}

class SumSquares {
  struct Bins {
    int64_t slot[kBinSlots] = {};
  };

public:
  const char *prepare(const DsLaunch &l) { return requireShards(l, l.numIns); }
  const char *run(const DsLaunch &l) {
    auto sumsOf = HWY_DYNAMIC_DISPATCH(chunkSums);
    int64_t *bins = ptr<int64_t>(l.outs[0]);
    std::fill_n(bins, kBinSlots, 0);
    std::mutex mutex; // integers: the order of the threads does not matter
    for (int i = 0; i < l.numIns; ++i) {
      const float *x = f32(l.ins[i]);
      forEachPiece(
          l, i, [] { return Bins(); },
          [&](Bins &mine, int64_t begin, int64_t end, int32_t) {
            double sums[kPiece / kQuantum];
            const int64_t whole = (end - begin) / kQuantum;
            sumsOf(x + begin, whole, sums);
            for (int64_t k = 0; k < whole; ++k)
              addNormal(mine.slot, sums[k]);
            begin += whole * kQuantum;
            if (begin < end)
              addNormal(mine.slot, chunkSumSquares(x + begin, end - begin));
          },
          [&](Bins &mine) {
            std::lock_guard<std::mutex> lock(mutex);
            for (int k = 0; k < kBinSlots; ++k)
              bins[k] += mine.slot[k];
          });
    }
    return nullptr;
  }
};

const KernelFns adam = fnsOf<Adam<false>>();
const KernelFns adamRound = fnsOf<Adam<true>>();
const KernelFns sgd = fnsOf<Sgd>();
const KernelFns sumSquares = fnsOf<SumSquares>();

} // namespace ds::cpu
#endif
