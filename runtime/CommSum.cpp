// SPDX-License-Identifier: Apache-2.0
#include "runtime/CommSum.h"

#include "runtime/Convert.h"

#include <algorithm>
#include <cstring>

namespace ds {

bool canSum(DType t) { return isFloat(t) || t == DType::I64; }

// Block by block through a buffer that stays in cache: each source is read once, in long runs, and dst is
// written only after all sources of the block have been read.
template <typename T, typename Sum>
static void sumBlocks(const void *const *sources, int count, void *dst, int64_t n) {
  constexpr int64_t kBlock = 2048;
  Sum sum[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    int64_t m = std::min(kBlock, n - at);
    std::memcpy(sum, static_cast<const T *>(sources[0]) + at, static_cast<size_t>(m) * sizeof(T));
    for (int r = 1; r < count; ++r) {
      const T *x = static_cast<const T *>(sources[r]) + at;
      for (int64_t i = 0; i < m; ++i)
        sum[i] += static_cast<Sum>(x[i]);
    }
    std::memcpy(static_cast<T *>(dst) + at, sum, static_cast<size_t>(m) * sizeof(T));
  }
}

// 16-bit sources, whose sum is f32.
static void sumHalves(DType t, const void *const *sources, int count, void *dst, int64_t n) {
  constexpr int64_t kBlock = 2048;
  float sum[kBlock], x[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    int64_t m = std::min(kBlock, n - at);
    convert(DType::F32, sum, t, static_cast<const uint16_t *>(sources[0]) + at, m);
    for (int r = 1; r < count; ++r) {
      convert(DType::F32, x, t, static_cast<const uint16_t *>(sources[r]) + at, m);
      for (int64_t i = 0; i < m; ++i)
        sum[i] += x[i];
    }
    std::memcpy(static_cast<float *>(dst) + at, sum, static_cast<size_t>(m) * sizeof(float));
  }
}

void sumInOrder(DType t, const void *const *sources, int count, void *dst, int64_t n) {
  switch (t) {
  case DType::F32:
    return sumBlocks<float, float>(sources, count, dst, n);
  case DType::F64:
    return sumBlocks<double, double>(sources, count, dst, n);
  case DType::BF16:
  case DType::F16:
    return sumHalves(t, sources, count, dst, n);
  default: // i64, with wrap-around
    return sumBlocks<int64_t, uint64_t>(sources, count, dst, n);
  }
}

} // namespace ds
