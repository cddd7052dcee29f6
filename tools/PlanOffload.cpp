// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanOffload.h"

#include "frontend/Units.h"
#include "tools/Fit.h"
#include "tools/PlanMarket.h"
#include "tools/Workspace.h"

#include <algorithm>
#include <thread>

namespace ds {

namespace {

struct Candidate {
  std::string optimizer, param, activations;

  int moved() const { return !optimizer.empty() + !param.empty() + !activations.empty(); }
  /// Moves all that o does, and more.
  bool includes(const Candidate &o) const {
    return (o.optimizer.empty() || o.optimizer == optimizer) &&
           (o.param.empty() || o.param == param) &&
           (o.activations.empty() || o.activations == activations);
  }
  std::string text() const {
    std::string s;
    auto add = [&](const std::string &what, const std::string &where) {
      if (!where.empty())
        s += (s.empty() ? "" : ", ") + what + " to " + where;
    };
    add("optimizer states", optimizer);
    add("parameters", param);
    add("activations", activations.empty() ? "" : "cpu");
    return s.empty() ? "nothing is moved" : s;
  }
};

// What is given stays; the rest is tried in every way that the stage and the number of ranks allow.
std::vector<Candidate> candidates(const PlanConfig &c) {
  auto choices = [](const std::string &given, bool allowed, std::vector<std::string> open) {
    return !given.empty() ? std::vector<std::string>{given}
           : allowed      ? std::move(open)
                          : std::vector<std::string>{""};
  };
  std::vector<std::string> places = {"", "cpu"};
  if (!c.nvmePath.empty())
    places.push_back("nvme");
  std::vector<Candidate> all;
  for (const std::string &o : choices(c.offloadOptimizer, c.world == 1 || c.stage > 0, places))
    for (const std::string &p : choices(c.offloadParam, c.world == 1 || c.stage == 3, places))
      for (const std::string &a : choices(c.offloadActivations, true, {"", "."}))
        all.push_back({o, p, a});
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate &a, const Candidate &b) { return a.moved() < b.moved(); });
  return all;
}

PlanConfig with(PlanConfig c, const Candidate &k) {
  c.offloadOptimizer = k.optimizer;
  c.offloadParam = k.param;
  c.offloadActivations = k.activations;
  return c;
}

struct Found {
  Candidate what;
  double seconds = 0;
  int64_t device = 0, host = 0, nvme = 0; // arenas
  int64_t limit = 0;                      // of device memory that it was found under
  double bound = 0;                       // seconds
};

int64_t arenaOf(const Schedule &s, Space space) {
  for (const ArenaInfo &a : s.arenas)
    if (a.space == space)
      return a.bytes;
  return 0;
}

/// All combinations under the config's limits.
class Search {
public:
  explicit Search(const LoadedModel &model) : model(model) {}

  Status prepare() {
    PlanConfig c = model.config;
    int threads = std::max<int>(1, std::thread::hardware_concurrency() / static_cast<int>(c.world));
    workspace = c.workspaceBytes = workspaceRule("cpu", threads, c.world);
    TRY_ASSIGN(rounds, PlanRounds::prepare(*model.module, c));
    std::vector<StatePlaces> places;
    std::string activations = candidates(c)[0].activations;
    for (const Candidate &k : candidates(c))
      if (k.activations == activations)
        places.push_back({k.optimizer, k.param});
    TRY_ASSIGN(market, PlanMarket::build(*rounds, c, places));
    return {};
  }

  /// The fastest plan that fits, if any; `least`: the one with the smallest device arena.
  StatusOr<std::optional<Found>> best(PlanConfig c, Found &least) {
    if (c.recompute.empty())
      c.recompute = "auto";
    c.workspaceBytes = workspace;
    std::optional<Found> found;
    std::vector<Candidate> easy; // fit without recomputation: moving more only costs time
    least.device = INT64_MAX;
    for (const Candidate &k : candidates(c)) {
      if (std::any_of(easy.begin(), easy.end(), [&](const Candidate &e) { return k.includes(e); }))
        continue;
      PlanConfig mine = with(c, k);
      TRY_ASSIGN(RecomputePlan p, planRecompute(*rounds, mine));
      TRY_ASSIGN(double seconds, updateSeconds(p.schedule, mine));
      Found f{k,
              seconds,
              arenaOf(p.schedule, Space::Device),
              arenaOf(p.schedule, Space::Host),
              arenaOf(p.schedule, Space::Nvme),
              c.deviceMemory};
      if (f.device < least.device)
        least = f;
      if (!checkFits(p.schedule, mine).ok())
        continue;
      if (p.values.empty())
        easy.push_back(k);
      if (!found || f.seconds < found->seconds)
        found = f;
    }
    if (found) {
      TRY_ASSIGN(found->bound, market->bound(c, found->seconds));
    }
    return found;
  }

private:
  const LoadedModel &model;
  decltype(PlanConfig::workspaceBytes) workspace;
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
  if (!best)
    return Status::error("offload auto: no plan fits " + limit->name +
                             "; the least of device memory, " + bytesText(least.device) +
                             ", is needed where " + least.what.text(),
                         Code::DoesNotFit);
  c = with(c, best->what);
  c.assumptions.push_back("offload auto: " + best->what.text());
  TRY_ASSIGN(std::string rates, planRatesName(c));
  model.gap = {best->seconds, best->bound, rates};
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
  std::vector<Found> points = {*whole};
  for (int step = 1; step <= kSteps; ++step) {
    PlanConfig c = open;
    c.deviceMemory = whole->device - (whole->device - least.device) * step / kSteps;
    TRY_ASSIGN(std::optional<Found> f, search.best(c, ignored));
    if (f && f->device < points.back().device)
      points.push_back(*f);
  }
  // A point is worth showing if nothing that needs less is as fast.
  std::vector<Found> front;
  for (const Found &f : llvm::reverse(points))
    if (front.empty() || f.seconds < front.back().seconds)
      front.push_back(f);
  std::string out = cell("device", 12) + cell("host", 12) + cell("nvme", 12) + cell("update", 12) +
                    "  slower      gap  flags\n";
  for (const Found &f : llvm::reverse(front)) {
    char slower[32];
    std::snprintf(slower, sizeof slower, "%6.1f %% %6.1f %%",
                  100 * (f.seconds / whole->seconds - 1),
                  100 * PlanGap{f.seconds, f.bound, {}}.part());
    out += cell(bytesText(f.device), 12) + cell(bytesText(f.host), 12) +
           cell(bytesText(f.nvme), 12) + cell(secondsText(f.seconds), 12) + " " + slower +
           "  --device-memory " + std::to_string(f.limit) + " --offload auto";
    out += f.what.moved() ? "   (" + f.what.text() + ")\n" : "\n";
  }
  return out;
}

} // namespace ds
