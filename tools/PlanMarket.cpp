// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanMarket.h"

#include "passes/RecomputeAuto.h"
#include "tools/Fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ds {

StatusOr<PlanMarket> PlanMarket::build(const PlanRounds &rounds, const PlanConfig &c,
                                       const std::vector<BucketPlace> &places) {
  PlanMarket out;
  TRY_ASSIGN(out.rates, planRates(c));
  TRY_ASSIGN(out.limits.isShared, timesAddUp(c));
  out.limits.moves = c.offloadActivations.empty();
  // Places differ from the pass `offload` on. A schedule is large, so one at a time.
  TRY_ASSIGN(PlanRounds placed, rounds.beforeOffload(c));
  for (const BucketPlace &p : places) {
    PlanConfig mine = c;
    mine.offloadOptimizer = p.optimizer;
    mine.offloadParam = p.param;
    TRY_ASSIGN(Schedule s, placed.emit(mine));
    if (&p == &places[0]) {
      out.model = RecomputeModel(rounds.program(), s, out.rates);
      if (c.recompute.empty() || c.recompute == "auto")
        out.blocks = recomputeBlocks(rounds.program(), out.model);
      out.market = marketOf(out.model, out.blocks, c.gradAccum, [&](int64_t bytes) {
        return out.rates.launch + static_cast<double>(bytes) / out.rates.hostLink;
      });
    }
    bool isReduced = &p != &places[0] && c.offloadActivations.empty();
    addPlace(out.market, out.model, {p.optimizer, p.param, &s, isReduced}, out.rates);
    if (&p == &places[0] && places.size() > 1 && c.offloadActivations.empty())
      reduceToBuckets(placed.module(), out.model);
  }
  out.market.staying = c.keepGathered;
  return out;
}

Status PlanMarket::limitTo(const PlanConfig &c) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  limits.device = limit->available();
  limits.host = limit->host;
  prices = noPrices(market, limits.isShared); // one limit, one answer
  totalPrices = noPrices(market, /*isShared=*/true);
  return {};
}

double PlanMarket::bound(double seconds, int iterations) {
  MarketBound b = lowerBound(market, limits, seconds, prices, iterations);
  prices = std::move(b.prices);
  return b.seconds;
}

void PlanMarket::priceTotal(double total, int iterations) {
  MarketLimits shared = limits;
  shared.isShared = true;
  totalPrices = lowerBound(market, shared, total, totalPrices, iterations).prices;
}

MarketDecisions PlanMarket::everything(int place, bool values) const {
  MarketDecisions d = nothing();
  if (values) {
    std::vector<MarketStep> all = steps(/*byTotal=*/false);
    d = after(all, all.size());
  }
  std::fill(d.places.begin(), d.places.end(), place);
  return d;
}

std::vector<MarketDecisions> PlanMarket::withOneLess(const MarketDecisions &d) const {
  std::vector<std::pair<double, MarketDecisions>> all;
  auto seconds = [&](const MarketDecisions &of) {
    MarketSeconds busy = busySeconds(market, of);
    return ds::updateSeconds(busy, /*isShared=*/true);
  };
  double now = seconds(d);
  auto add = [&](MarketDecisions less) {
    double saved = now - seconds(less);
    all.emplace_back(saved, std::move(less));
  };
  for (size_t b = 0; b < d.places.size(); ++b)
    if (d.places[b] != 0 && !market.buckets[b].name.empty()) {
      MarketDecisions less = d;
      less.places[b] = 0;
      add(std::move(less));
    }
  for (size_t v = 0; v < d.moved.size(); ++v)
    if (d.moved[v]) {
      MarketDecisions less = d;
      less.moved[v] = false;
      add(std::move(less));
    }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<MarketDecisions> out;
  for (auto &[saved, less] : all)
    out.push_back(std::move(less));
  return out;
}

MarketDecisions PlanMarket::common(MarketDecisions a, const MarketDecisions &b) const {
  for (size_t k = 0; k < a.places.size(); ++k)
    if (b.places[k] == 0)
      a.places[k] = 0;
  for (size_t v = 0; v < a.moved.size(); ++v)
    a.moved[v] = a.moved[v] && b.moved[v];
  return a;
}

PlanMarket::Estimate PlanMarket::estimate(const MarketDecisions &d, int64_t bytes) const {
  Estimate e;
  RecomputeModel m = model;
  std::vector<int64_t> beside = besideValues(market, d);
  for (size_t k = 0; k < m.launches.size(); ++k)
    m.beside[k] = beside[k] + m.launches[k].work;
  for (size_t v = 0; v < d.moved.size(); ++v)
    if (d.moved[v])
      m.storages[market.values[v].storage].isMoved = true;
  MarketSeconds busy = busySeconds(market, d);
  e.peak = std::max(beside.back(), m.load(std::vector<bool>(m.firstBackward, false)).peak());
  bool hostFits = limits.host <= 0 || hostBytes(market, d) <= limits.host;
  e.fits = e.peak <= bytes;
  if (!e.fits && !blocks.empty()) {
    RecomputeChooser::Choice choice = RecomputeChooser(std::move(m), blocks).choose(bytes);
    e.peak = std::max(beside.back(), choice.peak);
    e.fits = e.peak <= bytes;
    e.values = std::move(choice.values);
    addBackward(busy, static_cast<double>(market.runs) * choice.seconds);
  }
  e.fits &= hostFits;
  e.seconds = e.least = ds::updateSeconds(busy, limits.isShared);
  e.total = ds::updateSeconds(busy, /*isShared=*/true);
  if (!limits.isShared) // a little of what runs beside is still waited for
    e.seconds += e.total / 100;
  return e;
}

PlanConfig PlanMarket::configOf(const MarketDecisions &d, PlanConfig c) const {
  for (size_t b = 0; b < market.buckets.size(); ++b) {
    const Market::Option &o = market.buckets[b].options[d.places[b]];
    if (!market.buckets[b].name.empty())
      c.bucketPlaces[market.buckets[b].name] = {o.optimizer, o.param};
  }
  for (size_t v = 0; v < d.moved.size(); ++v)
    if (d.moved[v])
      c.offloadValues.push_back(market.values[v].name);
  return c;
}

// Whether it would be smaller on the device, or is there because it was asked for.
static bool mayLie(const Market::Bucket &b, std::string Market::Option::*what, const char *where) {
  auto other = what == &Market::Option::param ? &Market::Option::optimizer : &Market::Option::param;
  for (const Market::Option &o : b.options)
    if (o.*what == where)
      for (const Market::Option &home : b.options)
        if (&home != &o && home.*other == o.*other && (home.*what).empty())
          return o.device < home.device;
  return !b.name.empty() && b.options[0].*what == where;
}

static int64_t sizeOf(const Market::Bucket &b) {
  int64_t most = 0;
  for (const Market::Option &o : b.options)
    most = std::max(most, o.device + o.host);
  return most;
}

std::string PlanMarket::text(const MarketDecisions &d) const {
  std::string out;
  auto add = [&](const std::string &s) { out += (out.empty() ? "" : ", ") + s; };
  for (auto [what, place] : {std::pair("optimizer states", &Market::Option::optimizer),
                             {"parameters", &Market::Option::param}})
    for (const char *where : {"cpu", "nvme"}) {
      // By size, of the buckets that may lie there.
      double there = 0, all = 0;
      for (size_t b = 0; b < market.buckets.size(); ++b)
        if (mayLie(market.buckets[b], place, where)) {
          auto size = static_cast<double>(sizeOf(market.buckets[b]));
          all += size;
          if (market.buckets[b].options[d.places[b]].*place == where)
            there += size;
        }
      if (there <= 0)
        continue;
      auto percent = std::clamp<int64_t>(std::llround(100 * there / all), 1, 99);
      add((there < all ? std::to_string(percent) + " % of " : "") + what + " to " + where);
    }
  if (auto moved = std::count(d.moved.begin(), d.moved.end(), true))
    add(std::to_string(moved) + (moved == 1 ? " activation" : " activations") + " to cpu");
  return out.empty() ? "nothing is moved" : out;
}

} // namespace ds
