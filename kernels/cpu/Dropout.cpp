// SPDX-License-Identifier: Apache-2.0
//
// dropout, for every float type. Random words are drawn a vector of Philox blocks at a time into a small buffer.
#include "kernels/DropoutMath.h"
#include "kernels/Element.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Dropout.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR // which has no wide multiplication
using U32 = hn::RebindToUnsigned<F32>;
using VU = hn::Vec<U32>;

/// The upper and lower halves of a * m, lane by lane.
HWY_INLINE void multiply(VU a, VU m, VU &high, VU &low) {
  U32 d;
  hn::RepartitionToWide<U32> wide;
  auto even = hn::MulEven(a, m);
  auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

/// Blocks first, first + 1, ...: as many as vectors can draw of n. Returns their number.
int64_t vectorBlocks(const Philox &random, uint64_t first, int64_t n, uint32_t *words) {
  U32 d;
  const int64_t N = lanes();
  const VU m0 = hn::Set(d, Philox::kM0), m1 = hn::Set(d, Philox::kM1);
  int64_t k = 0;
  for (; k + N <= n; k += N) {
    uint64_t counter = first + static_cast<uint64_t>(k);
    auto low = static_cast<uint32_t>(counter);
    if (low > ~static_cast<uint32_t>(N)) // lanes do not carry into the upper word
      break;
    VU c0 = hn::Iota(d, low), c1 = hn::Set(d, static_cast<uint32_t>(counter >> 32));
    VU c2 = hn::Set(d, static_cast<uint32_t>(random.stream));
    VU c3 = hn::Set(d, static_cast<uint32_t>(random.stream >> 32));
    auto k0 = static_cast<uint32_t>(random.key), k1 = static_cast<uint32_t>(random.key >> 32);
    for (int round = 0; round < Philox::kRounds; ++round) {
      VU highA, lowA, highB, lowB;
      multiply(c0, m0, highA, lowA);
      multiply(c2, m1, highB, lowB);
      c0 = hn::Xor(hn::Xor(highB, c1), hn::Set(d, k0));
      c1 = lowB;
      c2 = hn::Xor(hn::Xor(highA, c3), hn::Set(d, k1));
      c3 = lowA;
      k0 += Philox::kW0;
      k1 += Philox::kW1;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * k);
  }
  return k;
}
#else
int64_t vectorBlocks(const Philox &, uint64_t, int64_t, uint32_t *) { return 0; }
#endif

/// words[4 k .. 4 k + 3] = random.block(first + k), for k < n.
void philoxBlocks(const Philox &random, uint64_t first, int64_t n, uint32_t *words) {
  for (int64_t k = vectorBlocks(random, first, n, words); k < n; ++k) {
    auto block = random.block(first + static_cast<uint64_t>(k));
    std::memcpy(words + 4 * k, block.data(), sizeof block);
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(philoxBlocks);

class Dropout {
public:
  const char *prepare(const DsLaunch &l) {
    if (l.outs[0].dtype != l.ins[0].dtype || !is(l.ins[1], DType::U64))
      return "dropout needs a result of its operand's type, and a u64 rng";
    const char *message = elem::dispatchFloat(l.ins[0].dtype, [&](auto tag) -> const char * {
      keep = keepWith<typename decltype(tag)::Type>;
      return nullptr;
    });
    if (message)
      return message;
    bytes = elemBytes(l.ins[0]);
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, 1);
  }

  const char *run(const DsLaunch &l) {
    const DropoutMath math(l);
    auto draw = HWY_DYNAMIC_DISPATCH(philoxBlocks);
    loop.forEach(threads, [&](const Offsets &off, int64_t n, int64_t first) {
      alignas(64) uint32_t words[kWords];
      for (int64_t i = 0, m; i < n; i += m) {
        int64_t row = (first + i) / math.rowElems, at = (first + i) % math.rowElems;
        int64_t skip = at % 4; // words of the first block that belong to earlier elements
        m = std::min({n - i, math.rowElems - at, kWords - skip});
        draw(math.stream(row), static_cast<uint64_t>(at / 4), (skip + m + 3) / 4, words);
        keep(words + skip, math, ptr<char>(l.ins[0]) + (off[1] + i * loop.inner(1)) * bytes,
             loop.inner(1), ptr<char>(l.outs[0]) + (off[0] + i * loop.inner(0)) * bytes,
             loop.inner(0), m);
      }
    });
    return nullptr;
  }

private:
  static constexpr int64_t kWords = 1024; // a multiple of 4

  template <class T>
  static void keepWith(const uint32_t *words, const DropoutMath &math, const void *from,
                       int64_t stepX, void *to, int64_t stepY, int64_t n) {
    using C = elem::Compute<T>;
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    const C scale = static_cast<C>(math.scale);
    const uint32_t below = math.below;
    if (stepX == 1 && stepY == 1)
      for (int64_t i = 0; i < n; ++i)
        y[i] = elem::store<T>(words[i] >= below ? elem::load(x[i]) * scale : C(0));
    else
      for (int64_t i = 0; i < n; ++i)
        y[i * stepY] = elem::store<T>(words[i] >= below ? elem::load(x[i * stepX]) * scale : C(0));
  }

  Loop loop;
  void (*keep)(const uint32_t *, const DropoutMath &, const void *, int64_t, void *, int64_t,
               int64_t) = nullptr;
  int64_t bytes = 4;
  int threads = 1;
};

const KernelFns dropout = fnsOf<Dropout>();

} // namespace ds::cpu
#endif
