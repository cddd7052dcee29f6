// SPDX-License-Identifier: Apache-2.0
//
// The bound on time within a limit of memory, against all decisions of small random markets: every set of launches that may be
// repeated, every set of values that may be moved, every place of the buckets. What a decision needs is read off the whole
// list of launches.
#include "passes/MarketSteps.h"
#include "test/unit/RecomputeSamples.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace ds;

namespace {

constexpr int kCompute = static_cast<int>(Stream::Compute), kDown = static_cast<int>(Stream::D2h),
              kUp = static_cast<int>(Stream::H2d), kHost = static_cast<int>(Stream::Host);

struct Sample {
  double slow = 1; // of copies
  double copySeconds(int64_t bytes) const { return slow * (1 + static_cast<double>(bytes) / 512); }

  RecomputeModel model;
  std::vector<Launches> blocks;
  Market market;
};

Sample randomSample(std::mt19937 &random, int forward, int backward, double slow) {
  Sample s;
  s.slow = slow;
  s.model = randomModel(random, forward, backward);
  for (int k = 0; k < forward; ++k) {
    if (k == 0 || below(random, 3) == 0)
      s.blocks.emplace_back();
    s.blocks.back().push_back(k);
  }
  s.market = marketOf(s.model, s.blocks, 1, [&](int64_t bytes) { return s.copySeconds(bytes); });
  for (const RecomputeModel::Launch &l : s.model.launches)
    if (&l - s.model.launches.data() < s.model.firstBackward)
      s.market.seconds[kCompute] += l.seconds;
    else
      addBackward(s.market.seconds, l.seconds);
  for (int64_t b = below(random, 3); b > 0; --b) {
    Market::Bucket bucket;
    for (int o = 0; o < 2; ++o) {
      Market::Option option;
      (o ? option.host : option.device) = 256 * (1 + below(random, 6));
      option.seconds[o ? kHost : kCompute] = static_cast<double>(1 + below(random, 9));
      option.seconds[kHostUpdates] = option.seconds[kHost];
      option.seconds[kDown] = o ? static_cast<double>(1 + below(random, 9)) : 0;
      if (o) {
        auto end = static_cast<int>(1 + below(random, forward));
        option.windows.push_back({0, end, 0, end, 256});
      }
      bucket.options.push_back(option);
    }
    s.market.buckets.push_back(bucket);
  }
  return s;
}

struct Outcome {
  double peak = 0;
  MarketSeconds busy{};
};

// The rule of plans: nothing outside of a block reads what is repeated in it.
bool mayRepeat(const Sample &s, int k) {
  for (const Launches &block : s.blocks)
    if (std::count(block.begin(), block.end(), k))
      for (int v : s.model.launches[k].out)
        for (int u : s.model.storages[v].users)
          if (u < s.model.firstBackward && !std::count(block.begin(), block.end(), u))
            return false;
  return s.model.launches[k].repeatable;
}

Outcome judge(const Sample &s, const std::vector<bool> &again, uint32_t moved, uint32_t places) {
  const RecomputeModel &m = s.model;
  Outcome out;
  out.busy = s.market.seconds;
  Walk w = walk(m, again);
  int launches = static_cast<int>(w.order.size());
  std::vector<int> launchAt; // of the micro-batch, by place in the list
  std::vector<double> live;
  for (auto [launch, repeated] : w.order) {
    launchAt.push_back(repeated ? -1 : launch);
    live.push_back(static_cast<double>(m.launches[launch].work));
    if (repeated)
      addBackward(out.busy, m.launches[launch].seconds);
  }
  for (const auto &[key, life] : w.lives) {
    auto [v, copy] = key;
    // The last use in forward, and the first behind it.
    int last = life.first, first = life.second + 1;
    for (int t = life.first + 1; t <= life.second; ++t) {
      auto [launch, repeated] = w.order[t];
      llvm::ArrayRef<int> in = m.launches[launch].in;
      if (!std::count(in.begin(), in.end(), v))
        continue;
      if (!repeated && launch < m.firstBackward)
        last = t;
      else
        first = std::min(first, t);
    }
    bool away =
        !copy && (moved >> v & 1) && m.storages[v].maker < m.firstBackward && first <= life.second;
    if (away) {
      out.busy[kDown] += s.copySeconds(m.storages[v].bytes);
      out.busy[kUp] += s.copySeconds(m.storages[v].bytes);
    }
    for (int t = life.first; t <= life.second; ++t)
      if (!away || t <= last || t >= first)
        live[t] += static_cast<double>(m.storages[v].bytes);
  }
  // A result lies where an operand did that is read for the last time, and not by a transfer.
  for (int t = 0; t < launches; ++t) {
    auto [launch, repeated] = w.order[t];
    for (int v : m.launches[launch].over) {
      bool copy = (repeated || launch >= m.firstBackward) && w.lives.count({v, true});
      bool away = !copy && (moved >> v & 1) && m.storages[v].maker < m.firstBackward;
      if (!away && w.lives.at({v, copy}).second == t) {
        live[t] -= static_cast<double>(m.storages[v].bytes);
        break;
      }
    }
  }
  double update = 0;
  for (size_t b = 0; b < s.market.buckets.size(); ++b) {
    const Market::Option &o = s.market.buckets[b].options[places >> b & 1];
    update += static_cast<double>(o.device);
    for (int k = 0; k < kPaths; ++k)
      out.busy[k] += o.seconds[k];
    for (int t = 0; t < launches; ++t) {
      live[t] += static_cast<double>(o.device);
      for (const Market::Window &window : o.windows)
        if (window.first <= launchAt[t] && launchAt[t] < window.end)
          live[t] += static_cast<double>(window.bytes);
    }
  }
  out.peak = std::max(update, *std::max_element(live.begin(), live.end()));
  return out;
}

void compare(bool shared) {
  std::mt19937 random(shared ? 11 : 12);
  double open = 0, optima = 0, bounds = 0;
  int bound = 0;
  for (int round = 0; round < 150; ++round) {
    int forward = 2 + round % 5;
    Sample s = randomSample(random, forward, 2 + round % 4, shared ? 1 : 40);
    std::vector<Outcome> all;
    auto values = static_cast<uint32_t>(s.model.storages.size());
    uint32_t saved = 0; // that may be moved
    for (uint32_t v = 0; v < values; ++v)
      saved |= s.model.storages[v].maker < forward ? 1u << v : 0;
    for (uint32_t set = 0; set < 1u << forward; ++set) {
      std::vector<bool> again;
      bool allowed = true;
      for (int k = 0; k < forward; ++k) {
        again.push_back(set >> k & 1);
        allowed &= !again[k] || mayRepeat(s, k);
      }
      for (uint32_t moved = saved; allowed; moved = (moved - 1) & saved) {
        for (uint32_t places = 0; places < 1u << s.market.buckets.size(); ++places)
          all.push_back(judge(s, again, moved, places));
        if (!moved)
          break;
      }
    }
    double least = 1e300, most = 0, fastest = 1e300;
    for (const Outcome &o : all) {
      least = std::min(least, o.peak);
      fastest = std::min(fastest, updateSeconds(o.busy, shared));
    }
    for (const Outcome &o : all)
      if (updateSeconds(o.busy, shared) <= fastest)
        most = std::max(most, o.peak);
    for (int k = 0; k < 4; ++k) {
      double limit = least + (most - least) * k / 4;
      double optimum = 1e300;
      for (const Outcome &o : all)
        if (o.peak <= limit)
          optimum = std::min(optimum, updateSeconds(o.busy, shared));
      MarketLimits limits{static_cast<int64_t>(limit), 0, shared, true};
      MarketBound b = lowerBound(s.market, limits, optimum);
      ASSERT_LE(b.seconds, optimum + 1e-6) << "round " << round << " limit " << limit;
      open += fastest;
      optima += optimum;
      bounds += b.seconds;
      bound += b.seconds > fastest + 1e-6;
    }
  }
  // Not an empty truth.
  EXPECT_GT(bound, shared ? 250 : 60);
  if (shared) { // else links hide behind compute up to the last whole value
    EXPECT_GT(bounds - open, 0.6 * (optima - open));
  }
}

TEST(Market, BoundIsAtMostTheBestOfAllDecisionsOnOneMachine) { compare(/*shared=*/true); }
TEST(Market, BoundIsAtMostTheBestOfAllDecisionsOnStreams) { compare(/*shared=*/false); }

// Each step needs less of the device at some point and more nowhere, at a price that does not fall; host memory is kept to.
TEST(Market, StepsLeadFromTheFastestToTheSmallest) {
  std::mt19937 random(13);
  int steps = 0, skipped = 0;
  for (int round = 0; round < 200; ++round) {
    Sample s = randomSample(random, 12 + round % 5, 12, 1);
    for (Market::Value &v : s.market.values)
      v.bytes *= 1024; // smaller ones are not moved
    MarketLimits limits{0, 0, true, true};
    Prices prices;
    std::fill_n(prices.weight.begin(), kStreams, 1);
    for (int k = 0; k < s.market.points(); ++k)
      prices.point.push_back(1e-5 * static_cast<double>(below(random, 9)));
    std::vector<MarketStep> all = marketSteps(s.market, limits, prices);
    auto bytesAt = [&](const MarketDecisions &d) {
      std::vector<int64_t> bytes = besideValues(s.market, d);
      for (size_t v = 0; v < s.market.values.size(); ++v)
        for (int k = s.market.values[v].from; !d.moved[v] && k < s.market.values[v].to; ++k)
          bytes[k] += s.market.values[v].bytes;
      return bytes;
    };
    MarketDecisions before = nothingMoved(s.market);
    for (size_t n = 1; n <= all.size(); ++n, ++steps) {
      MarketDecisions after = afterSteps(s.market, limits, all, n);
      double priced = 0;
      std::vector<int64_t> a = bytesAt(before), b = bytesAt(after);
      for (size_t k = 0; k < a.size(); ++k)
        priced += (prices.point[k] + 1e-9) * static_cast<double>(a[k] - b[k]);
      EXPECT_GT(priced, 0) << "round " << round << " step " << n;
      EXPECT_GE(all[n - 1].price, n > 1 ? all[n - 2].price : 0);
      before = after;
    }
    limits.host = hostBytes(s.market, before) / 2;
    if (MarketDecisions d = nothingMoved(s.market); hostBytes(s.market, d) > limits.host)
      continue;
    MarketDecisions some = afterSteps(s.market, limits, all, all.size());
    EXPECT_LE(hostBytes(s.market, some), limits.host);
    skipped += hostBytes(s.market, some) < hostBytes(s.market, before);
  }
  EXPECT_GT(steps, 500);
  EXPECT_GT(skipped, 100);
}

} // namespace
