// SPDX-License-Identifier: Apache-2.0
//
// The assignment of options to the blocks of a chain, against all combinations.
#include "passes/RecomputeChain.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

using namespace ds;

namespace {

using Chain = std::vector<std::vector<ChainOption>>;

struct Best {
  double seconds;
  int64_t kept;
};

// Seconds and kept bytes of a choice, or nothing if some block does not fit.
std::optional<Best> judge(const Chain &chain, const std::vector<int> &choice, int64_t budget) {
  Best sum{0, 0};
  for (size_t k = 0; k < chain.size(); ++k) {
    const ChainOption &o = chain[k][choice[k]];
    if (sum.kept + o.peak > budget)
      return {};
    sum.seconds += o.seconds;
    sum.kept += o.saved;
  }
  return sum;
}

// All combinations, counted like the digits of a number.
std::optional<Best> exhaustive(const Chain &chain, int64_t budget) {
  std::optional<Best> best;
  std::vector<int> digits(chain.size(), 0);
  for (;;) {
    if (auto b = judge(chain, digits, budget))
      if (!best || b->seconds < best->seconds ||
          (b->seconds == best->seconds && b->kept < best->kept))
        best = b;
    size_t k = 0;
    while (k < digits.size() && ++digits[k] == static_cast<int>(chain[k].size()))
      digits[k++] = 0;
    if (k == digits.size())
      return best;
  }
}

// Times are whole numbers, so that sums do not depend on the order of addition.
Chain randomChain(std::mt19937 &random) {
  auto below = [&](int n) { return static_cast<int64_t>(random() % n); };
  Chain chain(1 + below(8));
  bool equal = below(2) == 0;
  for (auto &options : chain) {
    for (int64_t k = 0, n = 1 + below(4); k < n; ++k) {
      int64_t saved = below(20);
      options.push_back({saved, saved + below(30), static_cast<double>(below(15))});
    }
    if (equal)
      options = chain[0];
  }
  return chain;
}

TEST(RecomputeChain, EqualsExhaustiveSearch) {
  std::mt19937 random(7);
  int solved = 0;
  for (int round = 0; round < 2000; ++round) {
    Chain chain = randomChain(random);
    int64_t budget = static_cast<int64_t>(random() % 120);
    std::vector<int> choice = assignOptions(chain, budget);
    std::optional<Best> best = exhaustive(chain, budget);
    ASSERT_EQ(!choice.empty(), best.has_value()) << "round " << round;
    ASSERT_EQ(leastBudget(chain) <= budget, best.has_value()) << "round " << round;
    if (!best)
      continue;
    ++solved;
    std::optional<Best> mine = judge(chain, choice, budget);
    ASSERT_TRUE(mine) << "round " << round;
    EXPECT_EQ(mine->seconds, best->seconds) << "round " << round;
    EXPECT_EQ(mine->kept, best->kept) << "round " << round;
  }
  EXPECT_GT(solved, 500);
}

TEST(RecomputeChain, EarlyBlocksRecomputeMost) {
  // Keep 10 bytes, or recompute for one second with 1 byte kept and 10 more at its own time.
  Chain chain(6, {{10, 12, 0}, {1, 12, 1}});
  for (int64_t budget : {20, 30, 40, 50, 60}) {
    std::vector<int> choice = assignOptions(chain, budget);
    ASSERT_EQ(choice.size(), 6u) << budget;
    for (size_t k = 0; k + 1 < choice.size(); ++k)
      EXPECT_GE(choice[k], choice[k + 1]) << budget;
  }
}

TEST(RecomputeChain, FewStatesStillFit) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Chain chain = randomChain(random);
    int64_t budget = leastBudget(chain) + static_cast<int64_t>(random() % 20);
    std::vector<int> choice = assignOptions(chain, budget, /*states=*/2);
    ASSERT_FALSE(choice.empty()) << "round " << round;
    EXPECT_TRUE(judge(chain, choice, budget)) << "round " << round;
  }
}

} // namespace
