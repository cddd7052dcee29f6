// SPDX-License-Identifier: Apache-2.0
#include "tools/Timeline.h"

#include "runtime/Trace.h"
#include "tools/Fit.h"

#include <algorithm>

namespace ds {

StatusOr<std::optional<TargetRates>> targetRates(const PlanConfig &c) {
  TRY_ASSIGN(std::optional<Target> target, targetOf(c));
  std::optional<TargetRates> none;
  if (!target)
    return none;
  TargetRates t{std::move(*target), {}, {}};
  t.rates = ratesOf(t.target, c.world, &t.missing);
  return t.rates.complete(c.world) ? std::optional<TargetRates>(std::move(t)) : none;
}

// Two updates show the steady state.
Simulation predict(const Schedule &s, const TargetRates &t) {
  return simulate(s, instrTimes(s, t.rates), 2);
}

std::vector<std::string> predictionNotes(const Schedule &s, const TargetRates &t) {
  std::vector<std::string> notes;
  std::string defaults;
  bool across = t.target.perMachine(s.world()) < s.world();
  for (const std::string &m : t.missing)
    if ((s.arenas.size() > 1 || (!m.starts_with("nvme") && !m.starts_with("host_memory"))) &&
        (across || !m.starts_with("network")))
      defaults += (defaults.empty() ? "" : ", ") + m;
  if (!defaults.empty())
    notes.push_back(t.target.name + " does not state, so taken as: " + defaults);
  if (t.target.deviceMemory == 0)
    notes.push_back("rates of " + t.target.name +
                    " are those of one server's 2 cores, not of this "
                    "machine");
  if (t.target.ranks > 0 && t.target.ranks != s.world())
    notes.push_back("rates of " + t.target.name + " were measured with " +
                    std::to_string(t.target.ranks) + " ranks, this plan has " +
                    std::to_string(s.world()));
  return notes;
}

std::string bindingText(const Simulation &sim) {
  size_t best = 0;
  for (size_t t = 1; t < sim.streams.size(); ++t)
    if (sim.streams[t].critical > sim.streams[best].critical)
      best = t;
  int64_t step = std::max<int64_t>(1, sim.stepNs());
  return std::string(text(static_cast<Stream>(best))) + " " +
         std::to_string((100 * sim.streams[best].critical + step / 2) / step) + " %";
}

StatusOr<std::string> timelineText(const Schedule &s, const PlanConfig &c) {
  PlanConfig config = c;
  if (config.target.empty())
    config.target = "cpu";
  TRY_ASSIGN(std::optional<TargetRates> t, targetRates(config));
  if (!t)
    return Status::error("--emit timeline: " + config.target +
                         " does not state memory_bytes_per_second, flops_f32, flops_16bit" +
                         (c.world > 1 ? " and link_bytes_per_second" : "") +
                         ", which times are computed from");
  constexpr int64_t kUpdates = 3;
  Simulation sim = simulate(s, instrTimes(s, t->rates), kUpdates);
  std::vector<std::vector<TraceEvent>> events(kStreams);
  int64_t start = 0;
  for (const SimRun &run : sim.runs) {
    if (run.update == 0) {
      start = run.span.end;
      continue;
    }
    const SchedProgram &p = s.programs[run.program];
    for (size_t i = 0; i < p.instrs.size(); ++i) {
      Span span = sim.at(run, i);
      events[static_cast<size_t>(p.instrs[i].stream)].push_back({run.update, span.begin, span.end,
                                                                 static_cast<int32_t>(run.program),
                                                                 static_cast<int32_t>(i)});
    }
  }
  std::string out;
  TRY(emitTrace(s, events, start, ", predicted for " + t->target.name, [&](std::string_view part) {
    out += part;
    return Status();
  }));
  return out;
}

} // namespace ds
