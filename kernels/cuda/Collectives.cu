// SPDX-License-Identifier: Apache-2.0
//
// Sums over ranks in rank order, read from the peers' memory where they lie.
#include "kernels/cuda/Device.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

constexpr int kMostRanks = 64;
struct Sources {
  const void *p[kMostRanks];
  int count;
};

template <typename T, typename A> __global__ void sumKernel(A *dst, Sources s, int64_t n) {
  for (int64_t i = firstIndex(); i < n; i += indexStep()) {
    auto sum = static_cast<A>(value(static_cast<const T *>(s.p[0])[i]));
    for (int r = 1; r < s.count; ++r)
      sum += static_cast<A>(value(static_cast<const T *>(s.p[r])[i]));
    dst[i] = sum;
  }
}

} // namespace

const char *sumRanks(void *dst, const void *const *src, int32_t count, int64_t n, uint8_t dtype,
                     void *stream) {
  if (count > kMostRanks)
    return failure("sums over %d ranks, at most %d are possible", count, kMostRanks);
  if (n == 0)
    return nullptr;
  Sources s;
  s.count = count;
  std::copy(src, src + count, s.p);
  Touches t;
  auto bytes = static_cast<size_t>(n * byteSize(static_cast<DType>(dtype)));
  for (int32_t r = 0; r < count; ++r)
    t.reads(src[r], bytes);
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<kIsHalf<T>, float,
                                 std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>>;
    t.writes(dst, static_cast<size_t>(n) * sizeof(A));
    return launch(sumKernel<T, A>, gridFor(n), dim3(kBlock), 0, static_cast<cudaStream_t>(stream),
                  static_cast<A *>(dst), s, n);
  };
  if (static_cast<DType>(dtype) == DType::I64)
    return run(elem::Tag<int64_t>());
  return elem::dispatchFloat(dtype, run);
}

} // namespace ds::cuda
