// SPDX-License-Identifier: Apache-2.0
#include "tools/SummaryRecompute.h"

#include "frontend/Units.h"
#include "tools/Fit.h"
#include "tools/PlanRecompute.h"
#include "tools/Timeline.h"

#include <cstdio>

namespace ds {

static StatusOr<std::string> reason(const PlanConfig &c, const Schedule &s) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  if (c.recompute == "auto" && !limit)
    return std::string("keeps everything: no memory is given; --target or --device-memory sets it");
  if (c.recompute == "auto" && s.arenas[0].bytes <= limit->available())
    return std::string("keeps everything: the plan fits");
  return "saves nothing: the peak is at " + peakOf(s, Space::Device).where() + " also with it";
}

StatusOr<std::optional<RecomputeSummary>> recomputeSummary(const LoadedModel &model,
                                                           const Schedule &s) {
  PlanConfig c = model.config;
  if (c.recompute.empty() || c.recompute == "none")
    return std::optional<RecomputeSummary>();
  RecomputeSummary r;
  r.parts = recomputedParts(s);
  r.arena = r.keptArena = s.arenas[0].bytes;
  if (r.parts.empty()) {
    TRY_ASSIGN(r.why, reason(c, s));
    return std::optional<RecomputeSummary>(std::move(r));
  }
  for (const MemoryPart &p : r.parts)
    r.launches += p.count;
  r.nested = timesNested(s);
  TRY_ASSIGN(std::optional<TargetRates> target, targetRates(c));
  TRY_ASSIGN(Rates rates, planRates(c));
  r.rates = target ? target->target.name : "cpu";
  c.recompute = "none";
  TRY_ASSIGN(Schedule kept, plan(model, c));
  r.keptArena = kept.arenas[0].bytes;
  auto step = [&](const Schedule &plan) {
    return static_cast<double>(simulate(plan, instrTimes(plan, rates)).stepNs());
  };
  r.extraTime = step(s) / step(kept) - 1;
  return std::optional<RecomputeSummary>(std::move(r));
}

std::string recomputeLines(const RecomputeSummary &r, const std::string &mode) {
  constexpr size_t kShown = 8;
  std::string head = "\nrecompute " + mode;
  if (r.parts.empty())
    return head + " " + r.why + "\n";
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", 100 * r.extraTime);
  std::string out = head + ": the arena is " + bytesText(r.arena) + " instead of " +
                    bytesText(r.keptArena) + ", an update takes " + percent +
                    " % longer by the rates of " + r.rates + "; backward repeats " +
                    std::to_string(r.launches) + " launches of a micro-batch\n";
  if (r.nested > 0)
    out += "  nested: the inputs of all blocks do not fit, so some are computed again, too; a "
           "launch is "
           "repeated up to " +
           std::to_string(r.nested) + (r.nested == 1 ? " time\n" : " times\n");
  for (size_t k = 0; k < r.parts.size() && k < kShown; ++k)
    out += "  " + bytesText(r.parts[k].bytes) + "  " + r.parts[k].name +
           (r.parts[k].count > 1 ? ", " + std::to_string(r.parts[k].count) + " of them" : "") +
           "\n";
  if (r.parts.size() > kShown)
    out += "  and " + std::to_string(r.parts.size() - kShown) + " others\n";
  return out;
}

} // namespace ds
