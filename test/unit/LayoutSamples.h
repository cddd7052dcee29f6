// SPDX-License-Identifier: Apache-2.0
//
// Packing problems for tests, made from a seed.
#pragma once

#include "passes/layout/Layout.h"

namespace ds::test {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1) {}
  int64_t below(int64_t n);

private:
  uint64_t state;
};

/// n buffers of 1 to mostBytes bytes that live within times 0 to times - 1.
std::vector<PackItem> randomLives(uint64_t seed, int64_t n, int64_t times, int64_t mostBytes);

/// n buffers, or as many as go, of 1 to mostBytes bytes whose load is at most `load`. When that is nearly reached
/// everywhere, some need more than their load.
std::vector<PackItem> denseLives(uint64_t seed, int64_t n, int64_t times, int64_t load,
                                 int64_t mostBytes);

/// A rectangle of times x height cut into n buffers at random: its smallest height is `height`, without waste.
std::vector<PackItem> cutRectangle(uint64_t seed, int64_t n, int64_t times, int64_t height);

/// Forward and backward pass over a chain: what each layer saves for its backward pass, weights gathered one layer
/// ahead and again for the backward pass, gradients that live for a few steps, and short-lived results.
std::vector<PackItem> trainingStep(int layers);

} // namespace ds::test
