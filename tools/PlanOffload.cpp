// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanOffload.h"

#include "frontend/Units.h"
#include "tools/Fit.h"
#include "tools/PlanGathered.h"
#include "tools/PlanMarket.h"
#include "tools/Workspace.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ds {

namespace {

// What is given stays; the rest may lie where the stage and the number of ranks allow. Those that move least come first.
std::vector<BucketPlace> placesOf(const PlanConfig &c) {
  auto choices = [&](const std::string &given, bool allowed) {
    std::vector<std::string> all{given};
    if (given.empty() && allowed)
      all.push_back("cpu");
    if (given.empty() && allowed && !c.nvmePath.empty())
      all.push_back("nvme");
    return all;
  };
  std::vector<BucketPlace> all;
  for (const std::string &o : choices(c.offloadOptimizer, c.world == 1 || c.stage > 0))
    for (const std::string &p : choices(c.offloadParam, c.world == 1 || c.stage == 3))
      all.push_back({o, p});
  auto moved = [](const BucketPlace &p) { return !p.optimizer.empty() + !p.param.empty(); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const BucketPlace &a, const BucketPlace &b) { return moved(a) < moved(b); });
  return all;
}

struct Found {
  PlanConfig config;
  std::string what, kept; // kept: of keep_gathered, or empty
  double seconds = 0, bound = INFINITY;
  int64_t device = 0, host = 0, nvme = 0; // arenas
  int64_t limit = 0;                      // of device memory that it was found under
  RecomputePlan plan;
};

int64_t arenaOf(const Schedule &s, Space space) {
  for (const ArenaInfo &a : s.arenas)
    if (a.space == space)
      return a.bytes;
  return 0;
}

/// Looks for the fastest plan under limits: by estimates along the order in which moving gets worth it, then by whole plans
/// of the best of them.
class Search {
public:
  explicit Search(const LoadedModel &model) : model(model) {}

  Status prepare() {
    PlanConfig c = model.config;
    TRY_ASSIGN(workspace, workspaceRule(c, threadsOfRank(c)));
    c.workspaceBytes = workspace;
    TRY_ASSIGN(rounds, PlanRounds::prepare(*model.module, c));
    places = placesOf(c);
    TRY_ASSIGN(market, PlanMarket::build(*rounds, c, places));
    return {};
  }

  /// The fastest plan that fits, if any; `least`: if there is none, one with the smallest device arena.
  StatusOr<std::optional<Found>> best(PlanConfig c, Found &least) {
    if (c.recompute.empty())
      c.recompute = "auto";
    c.workspaceBytes = workspace;
    TRY(market->limitTo(c));
    std::vector<Try> tries = inOrder(candidates());
    // Whole plans take most of the time.
    size_t most = market->launches() < kLarge ? 6 : market->overlaps() ? 2 : 1, made = 0;
    std::optional<Found> found;
    for (const Try &t : tries) {
      if (made >= (found ? most : most + 3) || (!t.estimate.fits && made >= 3))
        break;
      if (found && t.estimate.seconds >= found->seconds)
        continue;
      ++made;
      TRY_ASSIGN(RecomputePlan p, planOf(c, t));
      TRY_ASSIGN(Found f, foundBy(c, t, std::move(p)));
      bool fits = checkFits(f.plan.schedule, f.config).ok();
      if (fits && (!found || f.seconds < found->seconds))
        found = std::move(f);
      else if (!fits && (least.device == 0 || f.device < least.device))
        least = std::move(f);
    }
    TRY(byFlags(c, found));
    if (found) {
      TRY(keepMore(c, *found));
      found->bound = std::min(found->bound, market->bound(found->seconds, kIterations));
    }
    return found;
  }

  /// Where none fits: with what `least` moves, and blocks' inputs computed again. Its bound is not known.
  StatusOr<std::optional<Found>> nested(const PlanConfig &c, const Found &least) {
    if (c.recompute != "auto" || least.device == 0)
      return std::optional<Found>();
    PlanConfig mine = least.config;
    mine.workspaceBytes = workspace;
    mine.recomputeValues.clear();
    TRY_ASSIGN(RecomputePlan p, planNested(*rounds, mine));
    if (!checkFits(p.schedule, mine).ok())
      return std::optional<Found>();
    Found f;
    f.config = least.config;
    f.what = least.what;
    TRY(describe(f, c, std::move(p)));
    return std::optional<Found>(std::move(f));
  }

private:
  // Memory that is left holds parameters from forward to backward. The bound is then that of markets with and without it.
  Status keepMore(const PlanConfig &c, Found &found) const {
    int64_t total = 0;
    if (!found.plan.values.empty() || c.source.count("dsplan.keep_gathered"))
      return {};
    TRY_ASSIGN(int64_t most, roomForGathered(found.plan, found.config, total));
    bool isMore = false;
    for (int tries = 0; tries < 2 && most > found.config.keepGathered; ++tries, most /= 2) {
      PlanConfig more = found.config;
      more.keepGathered = most;
      TRY_ASSIGN(RecomputePlan p, rounds->plan(more, found.plan.mode));
      TRY_ASSIGN(double seconds, updateSeconds(p.schedule, c));
      if (!checkFits(p.schedule, more).ok() || seconds >= found.seconds)
        continue;
      found.seconds = seconds;
      found.config = std::move(more);
      found.plan = std::move(p);
      found.device = arenaOf(found.plan.schedule, Space::Device);
      isMore = true;
    }
    if (!isMore)
      return {};
    found.kept = keptText(found.config.keepGathered, total);
    PlanConfig kept = c;
    kept.keepGathered = found.config.keepGathered;
    TRY_ASSIGN(PlanMarket other, PlanMarket::build(*rounds, kept, places));
    TRY(other.limitTo(kept));
    found.bound = other.bound(found.seconds, kIterations);
    return {};
  }

  // What flags alone could ask for is never faster than what is found: all states and all parameters at one place, all saved values
  // moved or none. Those that estimates tell are out of reach are not planned.
  Status byFlags(const PlanConfig &c, std::optional<Found> &found) const {
    constexpr double kNear = 0.05; // of estimates
    if (market->launches() >= kLarge && !market->overlaps())
      return {};
    for (size_t k = 0; k < places.size(); ++k)
      for (const char *values : {"", "."}) {
        if (*values && !c.offloadActivations.empty())
          continue; // given
        Try t = tried(market->everything(static_cast<int>(k), *values));
        if (static_cast<double>(t.estimate.peak) >
                (1 + kNear) * static_cast<double>(market->deviceBytes()) ||
            (found && t.estimate.least * (1 - kNear) >= found->seconds))
          continue;
        PlanConfig mine = c;
        mine.offloadOptimizer = places[k].optimizer;
        mine.offloadParam = places[k].param;
        if (*values)
          mine.offloadActivations = values;
        TRY_ASSIGN(RecomputePlan p, planRecompute(*rounds, mine));
        TRY_ASSIGN(Found f, foundBy(mine, t, std::move(p)));
        f.config = mine;
        f.config.recomputeValues = f.plan.values;
        if (checkFits(f.plan.schedule, f.config).ok() && (!found || f.seconds < found->seconds))
          found = std::move(f);
      }
    return {};
  }

  struct Try {
    MarketDecisions decisions;
    PlanMarket::Estimate estimate;
  };
  static constexpr size_t kLarge = 4000; // launches
  static constexpr int kIterations = 40;

  Try tried(MarketDecisions d) const {
    PlanMarket::Estimate e = market->estimate(d, market->deviceBytes());
    return {std::move(d), std::move(e)};
  }

  // The best first. Where streams run beside each other, how well shows in whole plans only, so every other one is of those
  // that have the least to do.
  std::vector<Try> inOrder(std::vector<Try> tries) const {
    auto sort = [](std::vector<Try> &all, auto key) {
      std::stable_sort(all.begin(), all.end(), [&](const Try &a, const Try &b) {
        if (a.estimate.fits != b.estimate.fits)
          return a.estimate.fits;
        return a.estimate.fits ? key(a.estimate) < key(b.estimate)
                               : a.estimate.peak < b.estimate.peak;
      });
    };
    sort(tries, [](const PlanMarket::Estimate &e) { return e.seconds; });
    if (!market->overlaps())
      return tries;
    std::vector<Try> least = tries, all;
    sort(least, [](const PlanMarket::Estimate &e) { return e.total; });
    for (size_t k = 0; k < tries.size(); ++k)
      for (Try *t : {&tries[k], &least[k]})
        if (std::none_of(all.begin(), all.end(),
                         [&](const Try &o) { return o.decisions == t->decisions; }))
          all.push_back(std::move(*t));
    return all;
  }

  std::vector<Try> candidates() {
    std::vector<Try> all{tried(market->nothing())};
    if (all[0].estimate.fits && all[0].estimate.values.empty())
      return all;
    std::vector<MarketStep> steps = market->steps(/*byTotal=*/false);
    all.push_back(tried(market->after(steps, steps.size())));
    market->bound(all[1].estimate.fits ? all[1].estimate.seconds : 2 * all[0].estimate.seconds,
                  kIterations);
    alongSteps(all, /*byTotal=*/false);
    if (market->overlaps()) {
      market->priceTotal(all[1].estimate.fits ? all[1].estimate.total : 2 * all[0].estimate.total,
                         kIterations);
      alongSteps(all, /*byTotal=*/true);
    }
    for (size_t k = 0; k < places.size() && market->launches() < kLarge; ++k)
      for (bool values : {false, true})
        all.push_back(tried(market->everything(static_cast<int>(k), values)));
    undoSteps(all);
    return all;
  }

  // The last step that was needed may have made room for others to be undone: the slowest of them first.
  void undoSteps(std::vector<Try> &all) {
    auto best = std::min_element(all.begin(), all.end(), [](const Try &a, const Try &b) {
      if (a.estimate.fits != b.estimate.fits)
        return a.estimate.fits;
      return a.estimate.seconds < b.estimate.seconds;
    });
    if (!best->estimate.fits)
      return;
    Try now = *best;
    std::vector<MarketDecisions> undone = market->withOneLess(now.decisions);
    size_t most = market->launches() < kLarge ? 32 : 4;
    for (size_t k = 0; k < std::min(most, undone.size()); ++k) {
      // Those before may have been undone already.
      Try next = tried(market->common(now.decisions, undone[k]));
      if (next.estimate.fits && next.estimate.seconds < now.estimate.seconds)
        now = std::move(next);
    }
    all.push_back(std::move(now));
  }

  // More steps need less memory; the time falls as less is repeated, then rises as more is moved.
  void alongSteps(std::vector<Try> &all, bool byTotal) {
    std::vector<MarketStep> steps = market->steps(byTotal);
    std::map<size_t, size_t> known; // number of steps -> index into all
    auto at = [&](size_t n) -> const PlanMarket::Estimate & {
      auto [it, isNew] = known.try_emplace(n, all.size());
      if (isNew)
        all.push_back(tried(market->after(steps, n)));
      return all[it->second].estimate;
    };
    // Large models have many small steps.
    size_t grain = market->launches() < kLarge ? 1 : std::max<size_t>(1, steps.size() / 12);
    size_t low = 0, high = steps.size();
    while (low + grain <= high && low < high) { // the fewest that fit
      size_t middle = low + (high - low) / 2;
      if (at(middle).fits)
        high = middle;
      else
        low = middle + 1;
    }
    low = high;
    high = steps.size();
    while (high - low > 2 * grain) {
      size_t a = low + (high - low) / 3, b = high - (high - low) / 3;
      auto time = [&](size_t n) { return byTotal ? at(n).total : at(n).seconds; };
      double ta = time(a), tb = time(b);
      if (ta <= tb)
        high = b;
      else
        low = a;
    }
    for (size_t n = low; n <= high; n += grain)
      at(n);
  }

  // What the plan needs more or less than the estimate moves the budget of the next one.
  StatusOr<RecomputePlan> planOf(const PlanConfig &c, const Try &t) const {
    constexpr int kRounds = 3, kMore = 3; // rounds, and more if none fits yet
    PlanConfig mine = market->configOf(t.decisions, c);
    if (c.recompute != "auto")
      return planRecompute(*rounds, mine);
    int64_t available = market->deviceBytes(), bytes = available;
    int64_t near =
        market->launches() < kLarge ? 200 : 25; // of large models one plan that fits has to do
    std::optional<RecomputePlan> best;
    PlanMarket::Estimate e = t.estimate;
    double seconds = 0;
    for (int round = 0;
         round < kRounds ||
         (best && arenaOf(best->schedule, Space::Device) > available && round < kRounds + kMore);
         ++round) {
      if (round > 0)
        e = market->estimate(t.decisions, bytes);
      bool repeats = !e.values.empty();
      TRY_ASSIGN(RecomputePlan p, rounds->plan(mine, repeats ? "auto" : "none", e.values));
      int64_t arena = arenaOf(p.schedule, Space::Device), over = arena - available;
      int64_t before = best ? arenaOf(best->schedule, Space::Device) : INT64_MAX;
      if (over <= 0 ? before > available || e.seconds < seconds : arena < before) {
        best = std::move(p);
        seconds = e.seconds;
      }
      bool close = over <= 0 && (!repeats || -over < available / near);
      if (close || (over > 0 && !e.fits))
        break;
      bytes -= over > 0 ? std::max(over, available / 500) : over;
    }
    return std::move(*best);
  }

  StatusOr<Found> foundBy(const PlanConfig &c, const Try &t, RecomputePlan p) const {
    Found f;
    f.config = market->configOf(t.decisions, c);
    f.what = market->text(t.decisions);
    TRY(describe(f, c, std::move(p)));
    return f;
  }

  static Status describe(Found &f, const PlanConfig &c, RecomputePlan p) {
    f.config.recomputeValues = p.values;
    f.config.recomputeSweeps = p.sweeps;
    TRY_ASSIGN(f.seconds, updateSeconds(p.schedule, c));
    f.device = arenaOf(p.schedule, Space::Device);
    f.host = arenaOf(p.schedule, Space::Host);
    f.nvme = arenaOf(p.schedule, Space::Nvme);
    f.limit = c.deviceMemory;
    f.plan = std::move(p);
    return {};
  }

  const LoadedModel &model;
  WorkspaceRule workspace;
  std::vector<BucketPlace> places;
  std::optional<PlanRounds> rounds;
  std::optional<PlanMarket> market;
};

std::string cell(std::string s, size_t width) {
  return std::string(s.size() < width ? width - s.size() : 1, ' ') + s;
}

} // namespace

Status chooseOffload(LoadedModel &model) {
  PlanConfig &c = model.config;
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  if (!limit) {
    c.assumptions.push_back("offload auto moves nothing: neither --device-memory nor --target "
                            "says what has to fit");
    return {};
  }
  if (c.recompute.empty())
    c.recompute = "auto";
  Search search(model);
  TRY(search.prepare());
  Found least;
  TRY_ASSIGN(std::optional<Found> best, search.best(c, least));
  if (!best) {
    TRY_ASSIGN(best, search.nested(c, least));
  }
  if (!best)
    return Status::error("offload auto: no plan fits " + limit->name +
                             "; the least of device memory, " + bytesText(least.device) +
                             ", is needed where " + least.what,
                         Code::DoesNotFit);
  best->config.workspaceBytes = c.workspaceBytes;
  c = std::move(best->config);
  c.assumptions.push_back("offload auto: " + best->what);
  if (!best->kept.empty())
    c.assumptions.push_back(best->kept);
  TRY_ASSIGN(std::string rates, planRatesName(c));
  if (best->bound > 0)
    model.gap = {best->seconds, best->bound, rates};
  model.keep(std::move(best->plan));
  return {};
}

std::string gapLine(const PlanGap &gap) {
  char part[32];
  std::snprintf(part, sizeof part, "%.1f", 100 * gap.part());
  return std::string("\ngap ") + part + " %: by the rates of " + gap.rates + " an update takes " +
         secondsText(gap.seconds) +
         "; whatever else is moved or repeated, none that fits takes less than " +
         secondsText(gap.bound) + "\n";
}

StatusOr<std::string> paretoText(const LoadedModel &model) {
  constexpr int kSteps = 16; // limits between the least that fits and what nothing limits
  PlanConfig open = model.config;
  open.deviceMemory = int64_t{1} << 60;
  open.memoryReserve = 0;
  Search search(model);
  TRY(search.prepare());
  Found least, ignored;
  PlanConfig tight = open;
  tight.deviceMemory = 1;
  TRY_ASSIGN(std::optional<Found> nothing, search.best(tight, least));
  (void)nothing; // none fits one byte
  TRY_ASSIGN(std::optional<Found> whole, search.best(open, ignored));
  if (!whole)
    return Status::error("--emit pareto: no plan fits the host memory");
  whole->limit = whole->device; // nothing is recomputed, so that it also fits exactly
  std::vector<Found> points;
  auto add = [&](Found f) {
    f.plan = {}; // large
    points.push_back(std::move(f));
  };
  const int64_t most = whole->device;
  const double fastest = whole->seconds;
  add(std::move(*whole));
  int64_t lowest = std::min(most, least.device + least.device / 100); // estimates are not as near
  for (int step = 1; step <= kSteps; ++step) {
    PlanConfig c = open;
    c.deviceMemory = most - (most - lowest) * step / kSteps;
    TRY_ASSIGN(std::optional<Found> f, search.best(c, ignored));
    if (f && f->device < points.back().device)
      add(std::move(*f));
  }
  // A point is worth showing if nothing that needs less is as fast.
  std::vector<const Found *> front;
  for (const Found &f : llvm::reverse(points))
    if (front.empty() || f.seconds < front.back()->seconds)
      front.push_back(&f);
  std::string out = cell("device", 12) + cell("host", 12) + cell("nvme", 12) + cell("update", 12) +
                    "  slower      gap  flags\n";
  for (const Found *each : llvm::reverse(front)) {
    const Found &f = *each;
    char slower[32];
    std::snprintf(slower, sizeof slower, "%6.1f %% %6.1f %%", 100 * (f.seconds / fastest - 1),
                  100 * PlanGap{f.seconds, f.bound, {}}.part());
    out += cell(bytesText(f.device), 12) + cell(bytesText(f.host), 12) +
           cell(bytesText(f.nvme), 12) + cell(secondsText(f.seconds), 12) + " " + slower +
           "  --device-memory " + std::to_string(f.limit) + " --offload auto";
    out += f.config.offloadValues.empty() && f.host + f.nvme == 0 ? "\n" : "   (" + f.what + ")\n";
  }
  return out;
}

} // namespace ds
