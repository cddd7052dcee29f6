// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of checkpoints, against all plans of small chains, each judged by a walk that counts what lives.
#include "passes/RecomputeNested.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>

using namespace ds;

namespace {

using Steps = std::vector<NestedStep>;

struct Cost {
  double seconds;
  int64_t peak;
};

// Runs the steps: what is kept, until when, and whether each step finds what it needs. Nothing if one does not.
std::optional<Cost> walk(const std::vector<NestedBlock> &chain, const Steps &steps) {
  size_t n = chain.size();
  struct Kept {
    int block, option; // -1: its output alone
  };
  std::vector<Kept> kept;
  auto bytes = [&] {
    int64_t sum = 0;
    for (const Kept &k : kept)
      sum += k.option < 0 ? chain[k.block].out : chain[k.block].options[k.option].saved;
    return sum;
  };
  int at = 0;                      // the block whose input passes by
  auto left = static_cast<int>(n); // the backward of blocks [0, left) is to come
  Cost c{0, 0};
  for (size_t k = 0; k < steps.size(); ++k) {
    const NestedStep &s = steps[k];
    const NestedBlock &b = chain[s.block];
    bool last = s.kind == NestedStep::Forward && s.block == left - 1;
    if (s.kind == NestedStep::Forward) {
      bool there = s.block == at || s.block == 0;
      for (const Kept &x : kept)
        there |= x.block == s.block - 1;
      if (!there || s.block >= left || (s.option < 0 && !b.through))
        return {};
      c.seconds += b.forward;
      c.peak = std::max(c.peak, bytes() + (s.option < 0 ? b.pass : b.options[s.option].peak));
      if (!last && (s.option >= 0 || s.keeps))
        kept.push_back({s.block, s.option});
      at = s.block + 1;
      c.peak = std::max(c.peak, bytes());
      if (last && (k + 1 == steps.size() || steps[k + 1].kind != NestedStep::Backward))
        return {};
      continue;
    }
    if (s.block != left - 1)
      return {};
    bool direct = k > 0 && steps[k - 1].kind == NestedStep::Forward &&
                  steps[k - 1].block == s.block && steps[k - 1].option == s.option;
    if (!direct) {
      if (kept.empty() || kept.back().block != s.block || kept.back().option != s.option)
        return {};
      kept.pop_back();
    }
    c.seconds += b.options[s.option].seconds;
    c.peak = std::max(c.peak, bytes() + b.options[s.option].peak);
    // The input of the next one is not needed behind its backward.
    if (!kept.empty() && kept.back().block == s.block - 1 && kept.back().option < 0)
      kept.pop_back();
    left = s.block;
    at = -1;
  }
  if (left != 0)
    return {};
  for (const NestedBlock &b : chain)
    c.seconds -= b.forward;
  return c;
}

// All plans of blocks i..j in which what is kept goes in the reverse order of its coming.
void forEachPlan(const std::vector<NestedBlock> &chain, int i, int j,
                 const std::function<void(const Steps &)> &visit) {
  for (int o = 0; o < static_cast<int>(chain[i].options.size()); ++o) {
    NestedStep forward{NestedStep::Forward, i, o, true}, backward{NestedStep::Backward, i, o, true};
    if (i == j) {
      visit({forward, backward});
      continue;
    }
    forEachPlan(chain, i + 1, j, [&](const Steps &rest) {
      Steps all{forward};
      all.insert(all.end(), rest.begin(), rest.end());
      all.push_back(backward);
      visit(all);
    });
  }
  for (int s = i + 1; s <= j; ++s)
    forEachPlan(chain, s, j, [&](const Steps &behind) {
      forEachPlan(chain, i, s - 1, [&](const Steps &before) {
        Steps all;
        for (int k = i; k < s; ++k)
          all.push_back({NestedStep::Forward, k, -1, k + 1 == s});
        all.insert(all.end(), behind.begin(), behind.end());
        all.insert(all.end(), before.begin(), before.end());
        visit(all);
      });
    });
}

std::vector<NestedBlock> randomChain(std::mt19937 &random, int n) {
  auto below = [&](int k) { return static_cast<int64_t>(random() % k); };
  std::vector<NestedBlock> chain(n);
  for (NestedBlock &b : chain) {
    b.forward = static_cast<double>(1 + below(9));
    b.out = 1 + below(6);
    b.pass = b.out + below(8);
    b.through = below(8) != 0;
    for (int64_t o = 0, count = 1 + below(2); o < count; ++o) {
      int64_t saved = b.out + below(12);
      b.options.push_back({saved, saved + below(10), static_cast<double>(below(6))});
    }
  }
  return chain;
}

TEST(RecomputeNested, EqualsExhaustiveSearch) {
  std::mt19937 random(5);
  int solved = 0, nested = 0;
  for (int round = 0; round < 250; ++round) {
    std::vector<NestedBlock> chain = randomChain(random, 1 + static_cast<int>(random() % 5));
    auto budget = static_cast<int64_t>(random() % 60);
    std::optional<double> best;
    forEachPlan(chain, 0, static_cast<int>(chain.size()) - 1, [&](const Steps &steps) {
      std::optional<Cost> c = walk(chain, steps);
      if (c && c->peak <= budget && (!best || c->seconds < *best))
        best = c->seconds;
    });
    std::optional<NestedPlan> plan = nestedPlan(chain, budget, budget);
    ASSERT_EQ(plan.has_value(), best.has_value()) << "round " << round;
    if (!plan)
      continue;
    ++solved;
    std::optional<Cost> mine = walk(chain, plan->steps);
    ASSERT_TRUE(mine) << "round " << round;
    EXPECT_LE(mine->peak, budget) << "round " << round;
    EXPECT_EQ(mine->seconds, *best) << "round " << round;
    EXPECT_EQ(plan->seconds, *best) << "round " << round;
    for (const NestedStep &s : plan->steps)
      if (s.option < 0) {
        ++nested;
        break;
      }
  }
  EXPECT_GT(solved, 100);
  EXPECT_GT(nested, 20);
}

TEST(RecomputeNested, LongChainsNeedLittle) {
  // 64 equal blocks: with their inputs kept they need 64 bytes; the time for a tenth of that is that of a few forward phases.
  NestedBlock b;
  b.forward = 1;
  b.out = b.pass = 1;
  b.through = true;
  b.options = {{1, 1, 1}};
  std::vector<NestedBlock> chain(64, b);
  EXPECT_EQ(nestedPlan(chain, 64, 64)->seconds, 64);
  std::optional<NestedPlan> few = nestedPlan(chain, 7, 7);
  ASSERT_TRUE(few);
  EXPECT_LE(few->seconds, 4 * 64);
  EXPECT_GE(few->seconds, 2 * 64);
  EXPECT_FALSE(nestedPlan(chain, 0, 1));
}

} // namespace
