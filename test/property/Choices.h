// SPDX-License-Identifier: Apache-2.0
//
// The random numbers of the property test: one 64-bit seed gives one sequence, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ds::property {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). Seed 0 stands for the simplest
/// choice every time: below gives 0 and chance gives false, which is what the shrinker tries first.
class Choices {
public:
  explicit Choices(uint64_t seed) : simplest(seed == 0), state(seed) {}

  uint64_t bits();
  int64_t below(int64_t n) { return simplest ? 0 : static_cast<int64_t>(bits() % uint64_t(n)); }
  bool chance(int percent) { return !simplest && below(100) < percent; }
  template <typename T> const T &of(const std::vector<T> &list) {
    return list[static_cast<std::size_t>(below(static_cast<int64_t>(list.size())))];
  }

private:
  bool simplest;
  uint64_t state;
};

} // namespace ds::property
