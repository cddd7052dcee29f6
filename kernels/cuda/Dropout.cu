// SPDX-License-Identifier: Apache-2.0
//
// Dropout by the masks of kernels/DropoutMath.h. The run's seed and the first sample are read on the device. Four elements of a row
// have one block of random words: where they lie side by side, a thread makes it once for them.
#include "ir/Philox.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

constexpr int kFour = 4;

struct Mask {
  const uint64_t *rng;
  int64_t rngStep;
  uint64_t opKey;
  int64_t rowElems;
  uint32_t below;

  __device__ uint64_t key() const {
    Philox::Words w = Philox{rng[0], ~opKey}.words(0);
    return w.w[0] | static_cast<uint64_t>(w.w[1]) << 32;
  }
  /// Of the elements [e, e + kSize), which are in one row's same four if there are several.
  template <int kSize> __device__ void keeps(uint64_t key, int64_t e, bool (&keep)[kSize]) const {
    auto inRow = static_cast<uint64_t>(e % rowElems), row = static_cast<uint64_t>(e / rowElems);
    const Philox::Words words = Philox{key, rng[rngStep] + row}.words(inRow / 4);
    DS_UNROLL
    for (int k = 0; k < kSize; ++k)
      keep[k] = words.w[kSize == kFour ? k : (inRow + k) % kFour] >= below;
  }
};

/// s counts packs of kSize elements.
template <typename T, int kSize>
__global__ void dropoutKernel(T *y, const T *x, Mask mask, double scale, Strided<2> s) {
  using C = Compute<T>;
  const uint64_t key = mask.key();
  for (int64_t i = firstIndex(); i < s.count; i += indexStep()) {
    int64_t at[2];
    s.offsets(i, at);
    bool keep[kSize];
    mask.keeps(key, i * kSize, keep);
    auto p = packAt<kSize>(x, at[1], true);
    DS_UNROLL
    for (int k = 0; k < kSize; ++k)
      p.of[k] = rounded<T>(keep[k] ? value(p.of[k]) * static_cast<C>(scale) : C(0));
    putPack(y, at[0], true, p);
  }
}

} // namespace

const char *dropout(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &rng = l->ins[1];
  double ratio = attr(*l, "ratio").f;
  Mask mask = {elem::dataOf<uint64_t>(rng), rng.strides[0],
               static_cast<uint64_t>(attr(*l, "key").i),
               std::max<int64_t>(1, elems(x) / std::max<int64_t>(1, attr(*l, "rows").i)),
               static_cast<uint32_t>(std::min(ratio * 0x1p32, 0x1p32 - 1))};
  Strided<2> s = stridedOf(l->outs[0], x);
  if (s.count == 0)
    return nullptr;
  return Floats::dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T *y = elem::dataOf<T>(l->outs[0]);
    const T *from = elem::dataOf<T>(x);
    auto go = [&](auto kernel, const Strided<2> &packs) {
      return launch(kernel, gridFor(packs.count), dim3(kBlock), 0, streamOf(*l), y, from, mask,
                    1 / (1 - ratio), packs);
    };
    const bool wide = mask.rowElems % kFour == 0 && s.liesInPacks(kFour) && !s.repeats(1) &&
                      isPacked<kFour>(y) && isPacked<kFour>(from);
    return wide ? go(dropoutKernel<T, kFour>, s.inPacks(kFour)) : go(dropoutKernel<T, 1>, s);
  });
}

} // namespace ds::cuda
