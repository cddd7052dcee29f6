// SPDX-License-Identifier: Apache-2.0
//
// A seeded permutation of [0, n) that needs no memory: a four-round Feistel network on the next even number
// of bits, walked until it lands below n. Each epoch has its own.
#pragma once

#include "ir/Philox.h"

namespace ds {

class Permutation {
public:
  /// n >= 1.
  Permutation(uint64_t n, uint64_t seed, uint64_t epoch) : n(n), random{seed, epoch} {
    while (halfBits < 32 && (uint64_t(1) << (2 * halfBits)) < n)
      ++halfBits;
  }

  /// Where element i of the epoch lies; i < n.
  uint64_t operator()(uint64_t i) const {
    do
      i = once(i);
    while (i >= n); // a cycle that starts below n comes back below n
    return i;
  }

private:
  uint64_t once(uint64_t x) const {
    uint64_t mask = (uint64_t(1) << halfBits) - 1, left = x >> halfBits, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t mixed = random.bits((round << 33) | (right << 1)) & mask;
      uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    return (left << halfBits) | right;
  }

  uint64_t n;
  Philox random;
  int halfBits = 1;
};

} // namespace ds
