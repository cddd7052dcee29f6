// SPDX-License-Identifier: Apache-2.0
//
// Exact, order-independent sums of squares (D7). A chunk of kQuantum elements is squared and summed in
// f64 in one fixed order; chunks never straddle ranks or parameters, so chunk sums do not depend on
// world size, buckets or stage. Chunk sums are then added exactly, as integers, into fixed bins
// (a superaccumulator after Kulisch; bin layout as in Collange et al. 2015, "Numerical reproducibility
// for the parallel reduction on multi- and many-core architectures"): any order gives the same bins.
#pragma once

#include <cstdint>

namespace ds {

/// f64 exponents span 2^-1074 .. 2^1023; bin b holds the multiples of 2^(32*b - 1088).
inline constexpr int kBins = 66;
inline constexpr int kBinsNonFinite = kBins; // last slot counts chunks that were not finite
inline constexpr int kBinSlots = kBins + 1;  // extent of the i64 bins tensor

/// Adds a non-negative chunk sum to bins[kBinSlots]. Each bin gets less than 2^32 a call: safe for
/// 2^31 calls over all ranks, i.e. 2^38 elements.
void addToBins(int64_t *bins, double chunkSum);
/// The f64 nearest to the exact sum (truncated below 2^-64 relative); +inf if a chunk was not finite.
double binsValue(const int64_t *bins);
/// Sum over one chunk of n <= kQuantum squares in the fixed order: eight lanes, then pairwise.
double chunkSumSquares(const float *x, int64_t n);
double chunkSumSquares(const double *x, int64_t n);

} // namespace ds
