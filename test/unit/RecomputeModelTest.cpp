// SPDX-License-Identifier: Apache-2.0
//
// Live bytes and options of random micro-batches, against walks and enumerations that share no code with them.
#include "passes/RecomputeOptions.h"
#include "test/unit/RecomputeSamples.h"

#include <gtest/gtest.h>

#include <random>

using namespace ds;

namespace {

TEST(RecomputeModel, LoadEqualsAWalkOverTheWholeList) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    RecomputeModel m = randomModel(random, 2 + round % 9, 1 + round % 7);
    std::vector<bool> again;
    for (int k = 0; k < m.firstBackward; ++k)
      again.push_back(below(random, 2) != 0);
    Walk w = walk(m, again);
    std::vector<int64_t> at(m.launches.size(), 0);
    double seconds = 0;
    for (int t = 0, next = 0; t < static_cast<int>(w.order.size()); ++t) {
      auto [launch, repeated] = w.order[t];
      if (!repeated)
        next = launch;
      else
        for (int u = t; w.order[u].second || (next = w.order[u].first, false); ++u) {
        }
      int64_t live = m.beside[next] + (repeated ? m.launches[launch].work : 0);
      for (const auto &[value, life] : w.lives)
        if (life.first <= t && t <= life.second)
          live += m.storages[value.first].bytes;
      // The result may lie where an operand did that is read for the last time.
      for (int v : m.launches[launch].over) {
        bool copy = (repeated || launch >= m.firstBackward) && w.lives.count({v, true});
        if (w.lives.at({v, copy}).second == t) {
          live -= m.storages[v].bytes;
          break;
        }
      }
      at[next] = std::max(at[next], live);
      seconds += repeated ? m.launches[launch].seconds : 0;
    }
    RecomputeModel::Load load = m.load(again);
    EXPECT_EQ(load.at, at) << "round " << round;
    EXPECT_EQ(load.seconds, seconds) << "round " << round;
  }
}

// Seconds and kept bytes if backward repeats this set of the block; nothing if it may not.
bool judge(const RecomputeModel &m, const Launches &block, uint32_t set, double &seconds,
           double &bytes) {
  seconds = bytes = 0;
  auto in = [&](int launch) {
    return launch < static_cast<int>(block.size()) && (set >> launch & 1);
  };
  for (int l : block) {
    bool outside = false;
    for (int v : m.launches[l].out)
      for (int u : m.storages[v].users)
        outside |= u >= static_cast<int>(block.size()) && u < m.firstBackward;
    if (in(l) && (outside || !m.launches[l].repeatable))
      return false;
    seconds += in(l) ? m.launches[l].seconds : 0;
    for (int v : m.launches[l].out) {
      bool read = false;
      for (int u : m.storages[v].users)
        read |= u >= m.firstBackward || in(u);
      if (read && !in(l) && !outside)
        bytes += static_cast<double>(m.storages[v].bytes);
    }
  }
  return true;
}

TEST(RecomputeOptions, AreTheBestSetsForEveryPrice) {
  std::mt19937 random(5);
  int several = 0;
  for (int round = 0; round < 200; ++round) {
    int n = 3 + round % 7;
    RecomputeModel m = randomModel(random, n + 2, 6); // two launches behind the block
    Launches block;
    for (int k = 0; k < n; ++k)
      block.push_back(k);
    std::vector<std::pair<double, double>> all, mine;
    double seconds, bytes;
    for (uint32_t set = 0; set < 1u << n; ++set)
      if (judge(m, block, set, seconds, bytes))
        all.emplace_back(seconds, bytes);
    for (const std::vector<bool> &option : blockOptions(m, block, /*most=*/1000)) {
      uint32_t set = 0;
      for (int k = 0; k < n; ++k)
        set |= option[k] ? 1u << k : 0;
      ASSERT_TRUE(judge(m, block, set, seconds, bytes)) << "round " << round;
      mine.emplace_back(seconds, bytes);
    }
    several += mine.size() > 2;
    EXPECT_EQ(mine.front().first, 0) << "round " << round;
    for (int k = 0; k < 40; ++k) {
      double price = static_cast<double>(below(random, 1000)) / 20000;
      auto least = [&](const std::vector<std::pair<double, double>> &sets) {
        double best = 1e300;
        for (auto [s, b] : sets)
          best = std::min(best, s + price * b);
        return best;
      };
      EXPECT_NEAR(least(mine), least(all), 1e-6) << "round " << round << " price " << price;
    }
  }
  EXPECT_GT(several, 50);
}

} // namespace
