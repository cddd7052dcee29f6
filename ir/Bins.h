// SPDX-License-Identifier: Apache-2.0
//
// Exact, order-independent sums of squares (D7). A chunk of kQuantum elements is squared and summed in
// f64 in one fixed order; chunks never straddle ranks or parameters, so chunk sums do not depend on
// world size, buckets or stage. Chunk sums are then added exactly, as integers, into fixed bins
// (a superaccumulator after Kulisch; bin layout as in Collange et al. 2015, "Numerical reproducibility
// for the parallel reduction on multi- and many-core architectures"): any order gives the same bins.
#pragma once

#include "ir/HostDevice.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace ds {

/// f64 exponents span 2^-1074 .. 2^1023; bin b holds the multiples of 2^(32*b - 1088).
inline constexpr int kBins = 66;
inline constexpr int kBinsNonFinite = kBins; // last slot counts chunks that were not finite
inline constexpr int kBinSlots = kBins + 1;  // extent of the i64 bins tensor

/// A chunk sum as 32-bit words of bins [bin, bin + 3); not finite: bin is kBinsNonFinite and the first word 1.
struct BinWords {
  int bin;
  uint32_t words[3];
};
DS_HOST_DEVICE inline BinWords binWords(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff)
    return {kBinsNonFinite, {1, 0, 0}};
  if (bits >> 63)
    return {0, {0, 0, 0}};
  if (exponent != 0)
    mantissa |= uint64_t{1} << 52;
  int low =
      (exponent ? exponent : 1) - 1075 + 1088; // bit position of the mantissa's bit 0, at least 14
  int shift = low % 32;
  uint64_t head = mantissa << shift, tail = shift ? mantissa >> (64 - shift) : 0; // below 2^85
  return {low / 32,
          {static_cast<uint32_t>(head), static_cast<uint32_t>(head >> 32),
           static_cast<uint32_t>(tail)}};
}

/// Adds a non-negative chunk sum to bins[kBinSlots]. Each bin gets less than 2^32 a call: safe for
/// 2^31 calls over all ranks, i.e. 2^38 elements.
inline void addToBins(int64_t *bins, double chunkSum) {
  BinWords w = binWords(chunkSum);
  for (int i = 0; i < 3 && w.bin + i < kBinSlots; ++i)
    bins[w.bin + i] += w.words[i];
}

/// The f64 nearest to the exact sum (truncated below 2^-64 relative); +inf if a chunk was not finite.
DS_HOST_DEVICE inline double binsValue(const int64_t *bins) {
  if (bins[kBinsNonFinite] != 0)
    return HUGE_VAL;
  // Carry upwards so that every bin is below 2^32, then add from the top.
  uint32_t carried[kBins + 1];
  uint64_t carry = 0;
  int top = -1;
  for (int b = 0; b <= kBins; ++b) {
    uint64_t v = (b < kBins ? static_cast<uint64_t>(bins[b]) : 0) + carry;
    carried[b] = static_cast<uint32_t>(v);
    carry = v >> 32;
    if (carried[b])
      top = b;
  }
  if (top < 0)
    return 0;
  unsigned __int128 head = 0; // the top four bins hold more than 96 significant bits
  for (int i = 0; i < 4; ++i)
    head = head << 32 | (top - i >= 0 ? carried[top - i] : 0);
  return ldexp(static_cast<double>(head), 32 * (top - 3) - 1088);
}

/// Sum over one chunk of n <= kQuantum squares in the fixed order: eight lanes, then pairwise.
double chunkSumSquares(const float *x, int64_t n);
double chunkSumSquares(const double *x, int64_t n);

} // namespace ds
