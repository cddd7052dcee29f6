// SPDX-License-Identifier: Apache-2.0
#include "passes/MarketBound.h"

#include "passes/MinCut.h"

#include <algorithm>
#include <numeric>

namespace ds {

namespace {

constexpr int kCompute = static_cast<int>(Stream::Compute);
constexpr int kDown = static_cast<int>(Stream::D2h), kUp = static_cast<int>(Stream::H2d);

class Decider {
public:
  Decider(const Market &m, const MarketLimits &limits, const Prices &prices)
      : market(m), limits(limits), prices(prices), before(m.points() + 1, 0),
        change(m.points() + 1, 0) {
    std::partial_sum(prices.point.begin(), prices.point.end(), before.begin() + 1);
    out.values.assign(m.values.size(), MarketChoice::State::Unneeded);
    out.busy = m.seconds;
  }

  MarketChoice run() {
    for (const Market::Value &v : market.values)
      if (v.isAlone)
        spend(v, 1);
    for (const Market::Part &p : market.parts)
      decide(p);
    for (const Market::Bucket &b : market.buckets)
      place(b);
    sum();
    return std::move(out);
  }

private:
  double between(int first, int end) const { return before[end] - before[first]; }
  double keepCost(const Market::Value &v) const {
    return static_cast<double>(v.bytes) * between(v.from, v.to);
  }
  double moveCost(const Market::Value &v) const {
    return v.down * prices.weight[kDown] + v.up * prices.weight[kUp] +
           static_cast<double>(v.bytes) * prices.host;
  }
  double cost(const Market::Value &v) const {
    return limits.moves ? std::min(keepCost(v), moveCost(v)) : keepCost(v);
  }
  void live(double bytes, int first, int end) {
    change[first] += bytes;
    change[end] -= bytes;
  }

  // The value is needed: it is kept or moved.
  void spend(const Market::Value &v, double share) {
    MarketChoice::State &state = out.values[&v - market.values.data()];
    if (!limits.moves || keepCost(v) <= moveCost(v)) {
      live(share * static_cast<double>(v.bytes), v.from, v.to);
      state = MarketChoice::State::Kept;
      return;
    }
    out.busy[kDown] += share * v.down;
    out.busy[kUp] += share * v.up;
    out.host += share * static_cast<double>(v.bytes); // all of them when backward begins
    state = MarketChoice::State::Moved;
  }

  void decide(const Market::Part &p) {
    auto launches = static_cast<int>(p.seconds.size()), uses = static_cast<int>(p.uses.size());
    std::vector<double> costs(uses);
    double all = 0;
    for (int u = 0; u < uses; ++u)
      all += costs[u] = cost(market.values[p.uses[u].value]) * p.uses[u].share;
    std::vector<bool> source(launches + uses, true); // nothing is repeated
    if (all > 0) {
      int from = launches + uses, to = from + 1;
      MinCut graph(to + 1);
      double backward =
          prices.weight[kCompute] + prices.weight[kHostUpdates] + prices.weight[kNewWeights];
      for (int k = 0; k < launches; ++k)
        graph.edge(from, k, std::max(1e-12, p.seconds[k] * backward));
      for (int u = 0; u < uses; ++u) {
        const Market::Part::Use &use = p.uses[u];
        graph.edge(use.maker < 0 ? from : use.maker, launches + u, costs[u]);
        if (market.values[use.value].isRead)
          graph.edge(launches + u, to, MinCut::kForced);
        for (int k : use.users)
          graph.edge(launches + u, k, MinCut::kForced);
      }
      source = graph.sourceSide(from, to);
    }
    for (int k = 0; k < launches; ++k)
      if (!source[k])
        addBackward(out.busy, p.seconds[k]);
    for (int u = 0; u < uses; ++u) {
      const Market::Part::Use &use = p.uses[u];
      const Market::Value &v = market.values[use.value];
      bool needed = all > 0 ? !source[launches + u] : v.isRead;
      if (needed && use.maker >= 0 && !source[use.maker])
        out.values[use.value] = MarketChoice::State::Repeated;
      else if (needed)
        spend(v, use.share);
    }
  }

  void place(const Market::Bucket &b) {
    int best = 0;
    double least = 0, whole = between(0, market.points()), leastStaying = 0;
    for (size_t o = 0; o < b.options.size(); ++o) {
      const Market::Option &option = b.options[o];
      double c = static_cast<double>(option.device) * whole +
                 static_cast<double>(option.host) * prices.host;
      for (int s = 0; s < kPaths; ++s)
        c += option.seconds[s] * prices.weight[s];
      for (const Market::Window &w : option.windows)
        c += static_cast<double>(w.bytes) * between(w.first, w.end);
      if (o == 0 || c < least) {
        least = c;
        best = static_cast<int>(o);
      }
      c -= option.again * prices.weight[kUp];
      leastStaying = o == 0 ? c : std::min(leastStaying, c);
    }
    spared.push_back(std::max(0.0, least - leastStaying));
    out.places.push_back(best);
    const Market::Option &option = b.options[best];
    live(static_cast<double>(option.device), 0, market.points());
    out.host += static_cast<double>(option.host);
    for (int s = 0; s < kPaths; ++s)
      out.busy[s] += option.seconds[s];
    for (const Market::Window &w : option.windows)
      live(static_cast<double>(w.bytes), w.first, w.end);
  }

  void sum() {
    double now = 0;
    for (int s = 0; s < kPaths; ++s)
      out.bound += prices.weight[s] * out.busy[s];
    for (int k = 0; k < market.points(); ++k) {
      now += change[k];
      out.bytes.push_back(now + static_cast<double>(market.fixed[k]));
      out.bound += prices.point[k] * (out.bytes[k] - static_cast<double>(limits.device));
    }
    std::sort(spared.begin(), spared.end(), std::greater<>());
    for (size_t k = 0; k < spared.size() && static_cast<int64_t>(k) < market.staying; ++k)
      out.bound -= spared[k];
    if (limits.host > 0)
      out.bound += prices.host * (out.host - static_cast<double>(limits.host));
  }

  const Market &market;
  const MarketLimits &limits;
  const Prices &prices;
  std::vector<double> before; // sums of prices
  std::vector<double> change; // of bytes, by point
  std::vector<double> spared; // by bucket: seconds, at most, if it stays for backward
  MarketChoice out;
};

// The nearest point of the simplex (Held, Wolfe and Crowder, 1974).
void project(MarketSeconds &weight) {
  MarketSeconds sorted = weight;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, level = 0;
  for (int k = 0; k < kPaths; ++k) {
    sum += sorted[k];
    if (double l = (sum - 1) / (k + 1); l < sorted[k])
      level = l;
  }
  for (double &w : weight)
    w = std::max(0.0, w - level);
}

} // namespace

MarketChoice bestAt(const Market &m, const MarketLimits &limits, const Prices &prices) {
  return Decider(m, limits, prices).run();
}

Prices noPrices(const Market &m, bool isShared) {
  Prices p;
  p.point.assign(m.points(), 0);
  p.weight[kCompute] = 1;
  if (isShared)
    std::fill_n(p.weight.begin(), kStreams, 1);
  return p;
}

MarketBound lowerBound(const Market &m, const MarketLimits &limits, double seconds, Prices from,
                       int iterations) {
  Prices now = from.point.empty() ? noPrices(m, limits.isShared) : std::move(from);
  MarketBound best;
  double factor = 1;
  int since = 0; // the last better one
  for (int n = 0; n < iterations; ++n) {
    MarketChoice c = bestAt(m, limits, now);
    if (n == 0 || c.bound > best.seconds) {
      since = c.bound > best.seconds * (1 + 1e-5) ? 0 : since;
      best = {c.bound, now};
    }
    if (++since > 4) {
      factor /= 2;
      since = 0;
      now = best.prices;
      c = bestAt(m, limits, now);
    }
    if (best.seconds >= seconds * (1 - 1e-4))
      break;
    // Polyak's step along what is missing, in units in which prices of bytes and of seconds compare.
    double norm = 0;
    std::vector<double> over(m.points());
    for (int k = 0; k < m.points(); ++k) {
      over[k] = c.bytes[k] - static_cast<double>(limits.device);
      if (over[k] < 0 && now.point[k] <= 0)
        over[k] = 0;
      norm += over[k] * over[k];
    }
    double overHost = limits.host > 0 ? c.host - static_cast<double>(limits.host) : 0;
    if (overHost < 0 && now.host <= 0)
      overHost = 0;
    norm += overHost * overHost;
    if (norm <= 0)
      break;
    double step = factor * (seconds - c.bound) / norm;
    for (int k = 0; k < m.points(); ++k)
      now.point[k] = std::max(0.0, now.point[k] + step * over[k]);
    now.host = std::max(0.0, now.host + step * overHost);
    if (!limits.isShared) {
      double mean = 0, spread = 0;
      for (double b : c.busy)
        mean += b / kPaths;
      for (double b : c.busy)
        spread += (b - mean) * (b - mean);
      for (int s = 0; s < kPaths && spread > 0; ++s)
        now.weight[s] += 0.2 * factor * (seconds - c.bound) / spread * (c.busy[s] - mean);
      project(now.weight);
    }
  }
  return best;
}

} // namespace ds
