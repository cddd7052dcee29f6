// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanRecompute.h"

#include "passes/Passes.h"
#include "passes/RecomputeAuto.h"
#include "tools/Fit.h"

namespace ds {

StatusOr<Rates> planRates(const PlanConfig &c) {
  TRY_ASSIGN(std::optional<Target> target, targetOf(c));
  Rates r;
  if (target)
    r = ratesOf(*target, c.world);
  if (r.complete(c.world))
    return r;
  TRY_ASSIGN(Target cpu, findTarget("cpu"));
  return ratesOf(cpu, c.world);
}

namespace {

// The passes before `recompute` run once, those from there on for every choice.
class Rounds {
public:
  Rounds(const Module &model, const PlanConfig &c) : micro(clone(model)), config(c) {
    std::vector<std::string> all = defaultPipeline();
    auto at = llvm::find(all, "recompute");
    before = {all.begin(), at};
    behind = {at, all.end()};
    options.repro = false;
  }

  Status prepare() { return runPasses(*micro, config, before, options); }
  Program &program() const { return *micro->program("micro"); }

  StatusOr<RecomputePlan> plan(std::vector<std::string> values) const {
    RecomputePlan p;
    p.module = clone(*micro);
    PlanConfig c = config;
    c.recomputeValues = values;
    TRY(runPasses(*p.module, c, behind, options));
    TRY_ASSIGN(p.schedule, scheduleModule(*p.module, c));
    p.values = std::move(values);
    return p;
  }

private:
  std::unique_ptr<Module> micro;
  const PlanConfig &config;
  std::vector<std::string> before, behind;
  PassOptions options;
};

} // namespace

StatusOr<RecomputePlan> planRecompute(const Module &model, const PlanConfig &c) {
  constexpr int kRounds = 3;
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  Rounds rounds(model, c);
  TRY(rounds.prepare());
  TRY_ASSIGN(RecomputePlan best, rounds.plan({}));
  if (!limit || best.schedule.arenas[0].bytes <= limit->available())
    return best;
  TRY_ASSIGN(Rates rates, planRates(c));
  RecomputeChooser chooser(rounds.program(), best.schedule, rates);

  // The plan decides: what it needs more or less than the budget moves that of the next choice.
  int64_t bytes = limit->available() - best.schedule.arenas[0].persistentBytes;
  double seconds = 0; // of the best one
  for (int round = 0; round < kRounds; ++round) {
    RecomputeChooser::Choice choice = chooser.choose(bytes);
    TRY_ASSIGN(RecomputePlan p, rounds.plan(std::move(choice.values)));
    int64_t arena = p.schedule.arenas[0].bytes, least = best.schedule.arenas[0].bytes;
    int64_t over = arena - limit->available();
    if (over <= 0 ? least > limit->available() || choice.seconds < seconds : arena < least) {
      best = std::move(p);
      seconds = choice.seconds;
    }
    bool close = over <= 0 && -over < limit->available() / 200;
    if (!choice.fits || close)
      break;
    bytes -= over;
  }
  return best;
}

} // namespace ds
