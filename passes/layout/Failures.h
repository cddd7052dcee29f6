// SPDX-License-Identifier: Apache-2.0
//
// States that the exact search has exhausted, so that it meets each only once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ds::layout {

/// 128 bits of hash of a state; equal keys are taken for equal states.
struct StateKey {
  uint64_t a = 0, b = 0;
  /// Adds one fact; the order of additions does not matter.
  void add(uint64_t fact) {
    a += mix(fact ^ 0x9e3779b97f4a7c15u);
    b += mix(fact * 0xd6e8feb86659fd93u + 0xa0761d6478bd642fu);
  }

private:
  static uint64_t mix(uint64_t x) { // the finalizer of splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
};

/// A hash table that grows to kMost entries and then forgets the entry in the way.
class Failures {
public:
  /// Whether the state is known to have no completion of at most this height.
  bool has(const StateKey &key, int64_t capacity) const;
  void add(const StateKey &key, int64_t capacity);

private:
  struct Entry {
    StateKey key;
    int64_t capacity = -1;
  };
  static constexpr size_t kFirst = size_t(1) << 12, kMost = size_t(1) << 21, kProbes = 4;
  void grow();
  std::vector<Entry> table;
  size_t used = 0;
};

} // namespace ds::layout
