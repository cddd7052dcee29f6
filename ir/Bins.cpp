// SPDX-License-Identifier: Apache-2.0
#include "ir/Bins.h"

#include <cmath>
#include <limits>

namespace ds {

void addToBins(int64_t *bins, double v) {
  if (!std::isfinite(v)) {
    ++bins[kBinsNonFinite];
    return;
  }
  if (v <= 0)
    return;
  int exponent;
  double fraction = std::frexp(v, &exponent); // v = fraction * 2^exponent, fraction in [0.5, 1)
  auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53)); // exact, 53 bits
  int low = exponent - 53 + 1088; // bit position of mantissa's bit 0
  if (low < 0) { // subnormal results of frexp reach below 2^-1088 only with zero bits
    mantissa >>= -low;
    low = 0;
  }
  int bin = low / 32, shift = low % 32;
  unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << shift; // < 2^85
  for (int i = 0; i < 3 && bin + i < kBins; ++i)
    bins[bin + i] += static_cast<int64_t>(static_cast<uint64_t>(wide >> (32 * i)) & 0xffffffffu);
}

double binsValue(const int64_t *bins) {
  if (bins[kBinsNonFinite] != 0)
    return std::numeric_limits<double>::infinity();
  // Carry upwards so that every bin is below 2^32, then add from the top.
  int64_t carried[kBins + 2] = {};
  uint64_t carry = 0;
  for (int b = 0; b < kBins; ++b) {
    uint64_t v = static_cast<uint64_t>(bins[b]) + carry;
    carried[b] = static_cast<int64_t>(v & 0xffffffffu);
    carry = v >> 32;
  }
  carried[kBins] = static_cast<int64_t>(carry);
  int top = kBins;
  while (top >= 0 && carried[top] == 0)
    --top;
  if (top < 0)
    return 0;
  unsigned __int128 head = 0; // the top four bins hold more than 96 significant bits
  for (int i = 0; i < 4; ++i)
    head = (head << 32) | static_cast<uint64_t>(top - i >= 0 ? carried[top - i] : 0);
  return std::ldexp(static_cast<double>(head), 32 * (top - 3) - 1088);
}

template <typename T> static double chunkSum(const T *x, int64_t n) {
  double lane[8] = {};
  for (int64_t i = 0; i < n; ++i) {
    double v = static_cast<double>(x[i]);
    lane[i & 7] += v * v;
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
double chunkSumSquares(const float *x, int64_t n) { return chunkSum(x, n); }
double chunkSumSquares(const double *x, int64_t n) { return chunkSum(x, n); }

} // namespace ds
