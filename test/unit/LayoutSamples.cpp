// SPDX-License-Identifier: Apache-2.0
#include "test/unit/LayoutSamples.h"

#include <algorithm>

namespace ds::test {

int64_t Random::below(int64_t n) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<int64_t>((x ^ (x >> 31)) % static_cast<uint64_t>(n));
}

std::vector<PackItem> randomLives(uint64_t seed, int64_t n, int64_t times, int64_t mostBytes) {
  Random random(seed);
  std::vector<PackItem> items;
  for (int64_t i = 0; i < n; ++i) {
    int64_t a = random.below(times), b = random.below(times);
    items.push_back({std::min(a, b), std::max(a, b), 1 + random.below(mostBytes)});
  }
  return items;
}

std::vector<PackItem> denseLives(uint64_t seed, int64_t n, int64_t times, int64_t load,
                                 int64_t mostBytes) {
  Random random(seed);
  std::vector<PackItem> items;
  for (int tries = 0; tries < 300 && static_cast<int64_t>(items.size()) < n; ++tries) {
    int64_t first = random.below(times);
    int64_t last = std::min(times - 1, first + random.below(times / 2));
    items.push_back({first, last, 1 + random.below(mostBytes)});
    if (maxLoad(items, 1) > load)
      items.pop_back();
  }
  return items;
}

std::vector<PackItem> cutRectangle(uint64_t seed, int64_t n, int64_t times, int64_t height) {
  Random random(seed);
  std::vector<PackItem> items = {{0, times - 1, height}};
  while (static_cast<int64_t>(items.size()) < n) {
    // The larger of two, so that sizes stay of one order.
    size_t i = random.below(static_cast<int64_t>(items.size()));
    size_t j = random.below(static_cast<int64_t>(items.size()));
    auto area = [&](size_t k) { return (items[k].last - items[k].first + 1) * items[k].bytes; };
    PackItem &x = items[area(i) > area(j) ? i : j];
    PackItem rest = x;
    if (random.below(2)) {
      if (x.last == x.first)
        continue;
      x.last = x.first + random.below(x.last - x.first);
      rest.first = x.last + 1;
    } else {
      if (x.bytes == 1)
        continue;
      x.bytes = 1 + random.below(x.bytes - 1);
      rest.bytes -= x.bytes;
    }
    items.push_back(rest);
  }
  for (size_t k = items.size(); k > 1; --k)
    std::swap(items[k - 1], items[random.below(static_cast<int64_t>(k))]);
  return items;
}

std::vector<PackItem> trainingStep(int layers) {
  constexpr int kOps = 4; // per layer and pass
  std::vector<PackItem> items;
  int64_t end = int64_t(2) * layers * kOps;
  for (int l = 0; l < layers; ++l) {
    int64_t forward = int64_t(l) * kOps, backward = end - forward - kOps;
    for (int k = 0; k < kOps - 1; ++k)
      items.push_back({forward + k, backward + kOps - 1 - k, 1000 + 300 * k});
    int64_t weights = 4096;
    items.push_back({std::max<int64_t>(0, forward - kOps), forward + kOps - 1, weights});
    items.push_back({backward - (l + 1 < layers ? kOps : 0), backward + kOps - 1, weights});
    items.push_back({backward + 1, std::min(end - 1, backward + 2 * kOps - 1), weights});
    for (int k = 0; k + 1 < kOps; ++k) {
      items.push_back({forward + k, forward + k + 1, 700});
      items.push_back({backward + k, backward + k + 1, 700});
    }
  }
  return items;
}

} // namespace ds::test
