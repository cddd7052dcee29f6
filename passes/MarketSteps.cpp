// SPDX-License-Identifier: Apache-2.0
#include "passes/MarketSteps.h"

#include <algorithm>
#include <numeric>

namespace ds {

namespace {

// Smaller ones, and those that are needed again at once, are not moved (OffloadActivations.cpp).
constexpr int64_t kSmallest = 64 << 10;
constexpr int kNear = 8;

double weighted(const MarketSeconds &seconds, const Prices &prices) {
  double sum = 0;
  for (int s = 0; s < kPaths; ++s)
    sum += seconds[s] * prices.weight[s];
  return sum;
}

class Steps {
public:
  Steps(const Market &m, const MarketLimits &limits, const Prices &given)
      : market(m), limits(limits), prices(given), before(m.points() + 1, 0) {
    // Points that cost nothing at these prices could do so at others.
    double all = std::accumulate(prices.point.begin(), prices.point.end(), 0.0);
    for (double &p : prices.point)
      p += (all > 0 ? 0.01 * all : 1e-9) / m.points();
    std::partial_sum(prices.point.begin(), prices.point.end(), before.begin() + 1);
  }

  std::vector<MarketStep> run() {
    for (size_t b = market.buckets.size(); b-- > 0;)
      if (!market.buckets[b].name.empty())
        addBucket(static_cast<int>(b));
    if (limits.moves)
      addValues();
    std::stable_sort(steps.begin(), steps.end(),
                     [](const MarketStep &a, const MarketStep &b) { return a.price < b.price; });
    return std::move(steps);
  }

private:
  double between(int first, int end) const { return before[end] - before[first]; }

  // The lower hull of seconds and priced bytes.
  void addBucket(int bucket) {
    const Market::Bucket &b = market.buckets[bucket];
    std::vector<double> seconds, bytes;
    for (const Market::Option &o : b.options) {
      seconds.push_back(weighted(o.seconds, prices) + static_cast<double>(o.host) * prices.host);
      double sum = static_cast<double>(o.device) * between(0, market.points());
      for (const Market::Window &w : o.windows)
        sum += static_cast<double>(w.bytes) * between(w.first, w.end);
      bytes.push_back(sum);
    }
    for (int at = 0;;) {
      MarketStep step{0, bucket, -1, -1};
      for (size_t o = 0; o < seconds.size(); ++o) {
        if (bytes[o] >= bytes[at] * (1 - 1e-9))
          continue;
        double price = std::max(0.0, seconds[o] - seconds[at]) / (bytes[at] - bytes[o]);
        if (step.place < 0 || price < step.price ||
            (price <= step.price && bytes[o] < bytes[step.place])) {
          step.price = price;
          step.place = static_cast<int>(o);
        }
      }
      if (step.place < 0)
        return;
      steps.push_back(step);
      at = step.place;
    }
  }

  void addValues() {
    std::vector<bool> moved(market.values.size(), false);
    for (double dearer : {1.0, 2.0, 8.0, 64.0}) {
      Prices p = prices;
      for (double &price : p.point)
        price *= dearer;
      MarketChoice c = bestAt(market, limits, p);
      for (size_t v = 0; v < moved.size(); ++v)
        moved[v] = moved[v] || c.values[v] == MarketChoice::State::Moved;
    }
    for (size_t k = 0; k < moved.size(); ++k) {
      const Market::Value &v = market.values[k];
      if (!moved[k] || v.bytes < kSmallest || v.to - v.from <= kNear)
        continue;
      MarketSeconds seconds{};
      seconds[static_cast<int>(Stream::D2h)] = v.down;
      seconds[static_cast<int>(Stream::H2d)] = v.up;
      auto bytes = static_cast<double>(v.bytes);
      steps.push_back(
          {(weighted(seconds, prices) + bytes * prices.host) / (bytes * between(v.from, v.to)), -1,
           0, static_cast<int>(k)});
    }
  }

  const Market &market;
  const MarketLimits &limits;
  Prices prices;
  std::vector<double> before;
  std::vector<MarketStep> steps;
};

} // namespace

MarketDecisions nothingMoved(const Market &m) {
  return {std::vector<int>(m.buckets.size(), 0), std::vector<bool>(m.values.size(), false)};
}

std::vector<MarketStep> marketSteps(const Market &m, const MarketLimits &limits,
                                    const Prices &prices) {
  return Steps(m, limits, prices).run();
}

std::vector<int64_t> besideValues(const Market &m, const MarketDecisions &d) {
  std::vector<int64_t> change(m.points() + 1, 0);
  auto live = [&](int64_t bytes, int first, int end) {
    change[first] += bytes;
    change[end] -= bytes;
  };
  for (size_t b = 0; b < m.buckets.size(); ++b) {
    const Market::Option &o = m.buckets[b].options[d.places[b]];
    live(o.device, 0, m.points());
    for (const Market::Window &w : o.windows)
      live(w.bytes, w.from, std::min(w.to, m.points() - 1));
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

int64_t hostBytes(const Market &m, const MarketDecisions &d) {
  int64_t bytes = 0;
  for (size_t b = 0; b < m.buckets.size(); ++b)
    bytes += m.buckets[b].options[d.places[b]].host;
  for (size_t v = 0; v < m.values.size(); ++v)
    bytes += d.moved[v] ? m.values[v].bytes : 0;
  return bytes;
}

MarketDecisions afterSteps(const Market &m, const MarketLimits &limits,
                           const std::vector<MarketStep> &steps, size_t n) {
  MarketDecisions d = nothingMoved(m);
  int64_t host = hostBytes(m, d);
  for (size_t k = 0; k < n; ++k) {
    const MarketStep &s = steps[k];
    int64_t more = s.value >= 0 ? m.values[s.value].bytes
                                : m.buckets[s.bucket].options[s.place].host -
                                      m.buckets[s.bucket].options[d.places[s.bucket]].host;
    if (limits.host > 0 && more > 0 && host + more > limits.host)
      continue;
    host += more;
    if (s.value >= 0)
      d.moved[s.value] = true;
    else
      d.places[s.bucket] = s.place;
  }
  return d;
}

MarketSeconds busySeconds(const Market &m, const MarketDecisions &d) {
  MarketSeconds busy = m.seconds;
  for (size_t b = 0; b < m.buckets.size(); ++b)
    for (int s = 0; s < kPaths; ++s)
      busy[s] += m.buckets[b].options[d.places[b]].seconds[s];
  for (size_t v = 0; v < m.values.size(); ++v)
    if (d.moved[v]) {
      busy[static_cast<int>(Stream::D2h)] += m.values[v].down;
      busy[static_cast<int>(Stream::H2d)] += m.values[v].up;
    }
  return busy;
}

} // namespace ds
