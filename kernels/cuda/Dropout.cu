// SPDX-License-Identifier: Apache-2.0
//
// Dropout by the masks of kernels/DropoutMath.h. The run's seed and the first sample are read on the device.
#include "ir/Philox.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

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
  __device__ bool keeps(uint64_t key, int64_t e) const {
    auto inRow = static_cast<uint64_t>(e % rowElems), row = static_cast<uint64_t>(e / rowElems);
    return Philox{key, rng[rngStep] + row}.words(inRow / 4).w[inRow % 4] >= below;
  }
};

template <typename T>
__global__ void dropoutKernel(T *y, const T *x, Mask mask, double scale, Strided<2> s) {
  uint64_t key = mask.key();
  for (int64_t e = firstIndex(); e < s.count; e += indexStep()) {
    int64_t at[2];
    s.offsets(e, at);
    using C = Compute<T>;
    y[at[0]] = rounded<T>(mask.keeps(key, e) ? value(x[at[1]]) * static_cast<C>(scale) : C(0));
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
    return launch(dropoutKernel<T>, gridFor(s.count), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(x), mask, 1 / (1 - ratio), s);
  });
}

} // namespace ds::cuda
