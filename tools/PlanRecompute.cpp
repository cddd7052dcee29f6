// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanRecompute.h"

#include "passes/Passes.h"
#include "passes/RecomputeAuto.h"
#include "tools/Fit.h"

namespace ds {

// The config's target, if it states enough.
static StatusOr<Target> ratesTarget(const PlanConfig &c) {
  TRY_ASSIGN(std::optional<Target> target, targetOf(c));
  if (target && ratesOf(*target, c.world).complete(c.world))
    return *target;
  return findTarget("cpu");
}

StatusOr<Rates> planRates(const PlanConfig &c) {
  TRY_ASSIGN(Target t, ratesTarget(c));
  return ratesOf(t, c.world);
}

StatusOr<std::string> planRatesName(const PlanConfig &c) {
  TRY_ASSIGN(Target t, ratesTarget(c));
  return t.name;
}

StatusOr<bool> timesAddUp(const PlanConfig &c) {
  TRY_ASSIGN(Target t, ratesTarget(c));
  return t.deviceMemory == 0;
}

StatusOr<double> updateSeconds(const Schedule &s, const PlanConfig &c) {
  TRY_ASSIGN(Rates rates, planRates(c));
  TRY_ASSIGN(bool addUp, timesAddUp(c));
  Simulation sim = simulate(s, instrTimes(s, rates));
  int64_t ns = sim.stepNs(), busy = 0;
  for (const StreamTime &stream : sim.streams)
    busy += stream.busy;
  return 1e-9 * static_cast<double>(addUp ? std::max(ns, busy) : ns);
}

StatusOr<PlanRounds> PlanRounds::behindPassesBefore(const char *flag, std::unique_ptr<Module> m,
                                                    std::vector<std::string> passes,
                                                    const PlanConfig &c) {
  PlanRounds r;
  r.micro = std::move(m);
  auto at = llvm::find(passes, flag);
  r.behind = {at, passes.end()};
  PassOptions options;
  options.repro = false;
  TRY(runPasses(*r.micro, c, {passes.begin(), at}, options));
  return r;
}

StatusOr<PlanRounds> PlanRounds::prepare(const Module &model, const PlanConfig &c) {
  return behindPassesBefore("recompute", clone(model), defaultPipeline(), c);
}

StatusOr<PlanRounds> PlanRounds::beforeOffload(PlanConfig c) const {
  c.recompute = "none";
  return behindPassesBefore("offload", clone(*micro), behind, c);
}

StatusOr<std::unique_ptr<Module>> PlanRounds::finish(const PlanConfig &c) const {
  std::unique_ptr<Module> m = clone(*micro);
  PassOptions options;
  options.repro = false;
  TRY(runPasses(*m, c, behind, options));
  return m;
}

StatusOr<RecomputePlan> PlanRounds::plan(PlanConfig c, std::string mode,
                                         std::vector<std::string> values,
                                         std::vector<RecomputeSweep> sweeps) const {
  RecomputePlan p;
  c.recompute = p.mode = std::move(mode);
  c.recomputeValues = p.values = std::move(values);
  c.recomputeSweeps = p.sweeps = std::move(sweeps);
  TRY_ASSIGN(p.module, finish(c));
  TRY_ASSIGN(p.schedule, scheduleModule(*p.module, c));
  return p;
}

StatusOr<Schedule> PlanRounds::emit(PlanConfig c) const {
  c.recompute = "none";
  TRY_ASSIGN(std::unique_ptr<Module> m, finish(c));
  return emitSchedule(*m, c);
}

namespace {

int64_t arenaOf(const RecomputePlan &p) { return p.schedule.arenas[0].bytes; }

// The plan decides: what it needs more or less than the budget moves that of the next choice.
StatusOr<RecomputePlan> within(int64_t available, const Rates &rates, const PlanRounds &rounds,
                               const PlanConfig &c, RecomputePlan best) {
  constexpr int kRounds = 3;
  RecomputeChooser chooser(rounds.program(), best.schedule, rates);
  int64_t bytes = available - best.schedule.arenas[0].persistentBytes;
  double seconds = 0; // of the best one
  for (int round = 0; round < kRounds; ++round) {
    RecomputeChooser::Choice choice = chooser.choose(bytes);
    TRY_ASSIGN(RecomputePlan p, rounds.plan(c, "auto", std::move(choice.values)));
    int64_t over = arenaOf(p) - available;
    if (over <= 0 ? arenaOf(best) > available || choice.seconds < seconds
                  : arenaOf(p) < arenaOf(best)) {
      best = std::move(p);
      seconds = choice.seconds;
    }
    bool close = over <= 0 && -over < available / 200;
    if (!choice.fits || close)
      break;
    bytes -= over;
  }
  return best;
}

} // namespace

StatusOr<RecomputePlan> planNested(const PlanRounds &rounds, const PlanConfig &c) {
  constexpr int kRounds = 6, kMore = 2;
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  TRY_ASSIGN(Rates rates, planRates(c));
  TRY_ASSIGN(bool addUp, timesAddUp(c));
  TRY_ASSIGN(RecomputePlan best, rounds.plan(c, "none"));
  RecomputeChooser chooser(rounds.program(), best.schedule, rates);
  int64_t available = limit->available(),
          bytes = available - best.schedule.arenas[0].persistentBytes;
  double seconds = 0; // of the best one
  for (int round = 0, more = 0; round < kRounds; ++round) {
    RecomputeChooser::Choice choice = chooser.chooseNested(bytes, addUp);
    if (!choice.fits && ++more > kMore)
      break;
    if (!choice.fits) { // by estimates, which may ask for too much
      bytes += bytes / 8;
      continue;
    }
    TRY_ASSIGN(RecomputePlan p,
               rounds.plan(c, "auto", std::move(choice.values), std::move(choice.sweeps)));
    int64_t over = arenaOf(p) - available;
    if (over <= 0 ? arenaOf(best) > available || choice.seconds < seconds
                  : arenaOf(p) < arenaOf(best)) {
      best = std::move(p);
      seconds = choice.seconds;
    }
    if (over <= 0 && -over < available / 100)
      break;
    bytes -= over;
  }
  return best;
}

StatusOr<RecomputePlan> planRecompute(const PlanRounds &rounds, const PlanConfig &c) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  if (c.recompute == "auto" && !c.recomputeValues.empty()) // chosen already
    return rounds.plan(c, "auto", c.recomputeValues, c.recomputeSweeps);
  TRY_ASSIGN(RecomputePlan kept, rounds.plan(c, "none"));
  if (c.recompute != "auto") {
    TRY_ASSIGN(RecomputePlan p, rounds.plan(c, c.recompute));
    return arenaOf(p) < arenaOf(kept) ? std::move(p) : std::move(kept);
  }
  if (!limit || arenaOf(kept) <= limit->available())
    return kept;
  TRY_ASSIGN(Rates rates, planRates(c));
  TRY_ASSIGN(RecomputePlan best, within(limit->available(), rates, rounds, c, std::move(kept)));
  if (arenaOf(best) <= limit->available())
    return best;
  TRY_ASSIGN(RecomputePlan nested, planNested(rounds, c));
  return arenaOf(nested) < arenaOf(best) ? std::move(nested) : std::move(best);
}

StatusOr<RecomputePlan> planRecompute(const Module &model, const PlanConfig &c) {
  TRY_ASSIGN(PlanRounds rounds, PlanRounds::prepare(model, c));
  return planRecompute(rounds, c);
}

} // namespace ds
