// SPDX-License-Identifier: Apache-2.0
#include "ir/Bins.h"

namespace ds {

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
