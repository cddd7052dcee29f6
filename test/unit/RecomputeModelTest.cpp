// SPDX-License-Identifier: Apache-2.0
//
// Live bytes and options of random micro-batches, against walks and enumerations that share no code with them.
#include "passes/RecomputeOptions.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace ds;

namespace {

int64_t below(std::mt19937 &random, int64_t n) { return static_cast<int64_t>(random() % n); }

// Forward launches that read what earlier ones made, and backward ones that read anything; times are whole numbers.
RecomputeModel randomModel(std::mt19937 &random, int forward, int backward) {
  RecomputeModel m;
  m.firstBackward = forward;
  for (int k = 0; k < forward + backward; ++k) {
    RecomputeModel::Launch l;
    l.repeatable = k < forward && below(random, 5) != 0;
    l.seconds = static_cast<double>(1 + below(random, 9));
    l.work = 256 * below(random, 3);
    auto made = static_cast<int64_t>(m.storages.size());
    std::set<int> in;
    for (int64_t r = 0; made > 0 && r < 1 + below(random, 2); ++r)
      in.insert(static_cast<int>(below(random, made)));
    l.in.assign(in.begin(), in.end());
    for (int v : l.in)
      m.storages[v].users.push_back(k);
    for (int64_t r = 0; r < 1 + (below(random, 4) == 0); ++r) {
      l.out.push_back(static_cast<int>(m.storages.size()));
      m.storages.push_back({256 * (1 + below(random, 8)), k, {}});
    }
    m.launches.push_back(std::move(l));
    m.beside.push_back(256 * below(random, 4));
  }
  return m;
}

// The whole list of launches with the repeated ones, and every value's first and last place in it.
struct Walk {
  std::vector<std::pair<int, bool>> order; // launch, repeated
  std::map<std::pair<int, bool>, std::pair<int, int>> lives;
};

Walk walk(const RecomputeModel &m, const std::vector<bool> &again) {
  auto isAgain = [&](int launch) {
    return launch < m.firstBackward && again[launch] && m.launches[launch].repeatable;
  };
  Walk w;
  std::set<int> done; // repeated already
  std::function<void(int)> repeat = [&](int launch) {
    if (!isAgain(launch) || !done.insert(launch).second)
      return;
    for (int v : m.launches[launch].in)
      repeat(m.storages[v].maker);
    w.order.emplace_back(launch, true);
  };
  for (int k = 0; k < static_cast<int>(m.launches.size()); ++k) {
    if (k >= m.firstBackward) {
      // All that k needs, in the order of the forward phase.
      std::set<int> needed;
      std::function<void(int)> need = [&](int launch) {
        if (isAgain(launch) && !done.count(launch) && needed.insert(launch).second)
          for (int v : m.launches[launch].in)
            need(m.storages[v].maker);
      };
      for (int v : m.launches[k].in)
        need(m.storages[v].maker);
      for (int launch : needed)
        repeat(launch);
    }
    w.order.emplace_back(k, false);
  }
  for (int t = 0; t < static_cast<int>(w.order.size()); ++t) {
    auto [launch, repeated] = w.order[t];
    for (int v : m.launches[launch].out)
      w.lives[{v, repeated}] = {t, t};
    for (int v : m.launches[launch].in) {
      bool copy = (repeated || launch >= m.firstBackward) && isAgain(m.storages[v].maker);
      w.lives[{v, copy}].second = t;
    }
  }
  return w;
}

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
