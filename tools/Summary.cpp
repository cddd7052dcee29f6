// SPDX-License-Identifier: Apache-2.0
#include "tools/Summary.h"

#include "frontend/Units.h"
#include "tools/PlanOffload.h"
#include "tools/SummaryPlans.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace ds {

namespace {

int64_t bytesOf(const MemoryReport &m, std::initializer_list<BufferKind> kinds) {
  int64_t sum = 0;
  for (BufferKind k : kinds)
    if (auto it = m.persistent.find(k); it != m.persistent.end())
      sum += it->second;
  return sum;
}

class Table {
public:
  explicit Table(std::string &out) : out(out) {}
  void row(const std::string &name, const std::vector<std::string> &cells) {
    out += "  " + name + std::string(name.size() < 28 ? 28 - name.size() : 1, ' ');
    for (const std::string &c : cells)
      out += std::string(c.size() < 12 ? 12 - c.size() : 1, ' ') + c;
    out += "\n";
  }
  template <typename F>
  void row(const std::string &name, const std::vector<StagePlan> &plans, F cell) {
    std::vector<std::string> cells;
    for (const StagePlan &p : plans)
      cells.push_back(cell(p));
    row(name, cells);
  }

private:
  std::string &out;
};

void peakLines(std::string &out, const StagePlan &p) {
  const PeakReport &peak = p.memory.peak;
  out += "\npeak of stage " + std::to_string(p.stage) + ": " + peak.program + ", " + peak.where() +
         "\n";
  std::vector<MemoryPart> parts = temporariesOfPeak(peak);
  for (size_t i = 0; i < parts.size() && i < 5; ++i)
    out += "  " + bytesText(parts[i].bytes) + "  " + parts[i].name +
           (parts[i].count > 1 ? ", " + std::to_string(parts[i].count) + " of them" : "") + "\n";
}

// What was moved out of the device's memory.
void spaceRows(Table &t, const std::vector<StagePlan> &plans, const std::string &name,
               SpaceReport MemoryReport::*space) {
  auto any = [&](auto bytes) {
    return std::any_of(plans.begin(), plans.end(),
                       [&](const StagePlan &p) { return bytes(p.memory.*space) > 0; });
  };
  auto row = [&](const std::string &what, auto bytes) {
    if (any(bytes))
      t.row(name + ": " + what, plans,
            [&](const StagePlan &p) { return bytesText(bytes(p.memory.*space)); });
  };
  for (BufferKind k : {BufferKind::Param, BufferKind::State, BufferKind::Accum})
    row(std::string(nounOf(k)), [k](const SpaceReport &s) {
      auto it = s.persistent.find(k);
      return it == s.persistent.end() ? int64_t{0} : it->second;
    });
  row("staging", [](const SpaceReport &s) { return s.staging; });
  row("arena", [](const SpaceReport &s) { return s.arena; });
}

// What the ranks of one machine need together: of main memory, which is also the device where the device is the machine.
void machineRows(Table &t, const std::vector<StagePlan> &plans, const PlanConfig &c,
                 const std::optional<Target> &target) {
  bool isDevice = !target || target->deviceMemory == 0;
  int64_t ranks = target ? target->perMachine(c.world) : c.world;
  auto row = [&](const std::string &what, auto bytes) {
    if (std::any_of(plans.begin(), plans.end(), [&](const StagePlan &p) { return bytes(p) > 0; }))
      t.row(what, plans, [&](const StagePlan &p) { return bytesText(bytes(p)); });
  };
  if (pinsHost(c))
    row("host: of it page-locked", [](const StagePlan &p) { return p.memory.host.arena; });
  if (ranks == 1)
    return;
  std::string name = std::to_string(ranks) + " ranks of a machine: ";
  row(name + "main", [&](const StagePlan &p) {
    return ranks * (p.memory.host.arena + (isDevice ? p.memory.arena : 0));
  });
  row(name + "nvme", [&](const StagePlan &p) { return ranks * p.memory.nvme.arena; });
}

// What the target leaves, and why it is not enough.
void limitRows(Table &t, const std::vector<StagePlan> &plans, const MemoryLimit &limit) {
  t.row("library contexts", plans, [&](const StagePlan &) { return bytesText(limit.reserve); });
  t.row("spare of " + limit.name, plans,
        [&](const StagePlan &p) { return bytesText(limit.available() - p.memory.arena); });
}

void verdictLines(std::string &out, const std::vector<StagePlan> &plans, const MemoryLimit &limit,
                  int64_t chosen) {
  out += "\ndoes it fit " + limit.name + ", " + bytesText(limit.capacity) + "?\n";
  for (const StagePlan &p : plans)
    out += (p.stage == chosen ? "> stage " : "  stage ") + std::to_string(p.stage) + ": " +
           verdictText(p.memory, limit) + "\n";
}

// Least times by the target's rates, where it states them.
void timeRows(Table &t, const std::vector<StagePlan> &plans, Target target) {
  target.productFraction = target.memoryFraction = target.linkFraction = 1;
  Rates peak = ratesOf(target, plans[0].schedule.world());
  peak.launch = 0;
  peak.curves.clear();
  if (peak.link > 0)
    t.row("sending, at least", plans, [&](const StagePlan &p) {
      return secondsText(static_cast<double>(p.traffic.sentBytes) / peak.link);
    });
  if (peak.complete(/*world=*/1))
    t.row("computing, at least", plans,
          [&](const StagePlan &p) { return secondsText(computeSeconds(p.schedule, peak)); });
}

std::string nsText(int64_t ns) { return secondsText(1e-9 * static_cast<double>(ns)); }

// How long an update takes, how busy each stream is, and how long compute stands still for it.
void predictionRows(Table &t, const std::vector<StagePlan> &plans) {
  auto any = [&](int stream, int64_t StreamTime::*what) {
    return std::any_of(plans.begin(), plans.end(),
                       [&](const StagePlan &p) { return p.predicted->streams[stream].*what > 0; });
  };
  t.row("update, predicted", plans,
        [](const StagePlan &p) { return nsText(p.predicted->stepNs()); });
  for (int stream = 0; stream < kStreams; ++stream) {
    std::string name(text(static_cast<Stream>(stream)));
    if (any(stream, &StreamTime::busy))
      t.row(name + " busy", plans,
            [&](const StagePlan &p) { return nsText(p.predicted->streams[stream].busy); });
    if (any(stream, &StreamTime::exposed))
      t.row("compute waits for " + name, plans,
            [&](const StagePlan &p) { return nsText(p.predicted->streams[stream].exposed); });
  }
  t.row("binds", plans, [](const StagePlan &p) { return bindingText(*p.predicted); });
}

// Buckets that differ by their layer only share a line.
void exceptionLines(std::string &out, const StagePlan &p) {
  struct Group {
    std::string name, how;
    int64_t count = 0, elems = 0, bytes = 0;
  };
  std::vector<Group> groups;
  for (const BucketTraffic &b : p.traffic.buckets) {
    std::string how;
    if (b.resident)
      how = "resident";
    else if (b.carried)
      how = "gathered once per update and kept";
    else if (b.gathers != 2 * p.schedule.step.gradAccum)
      how = "gathered " + std::to_string(b.gathers) + " times per update";
    else
      continue;
    auto g = std::find_if(groups.begin(), groups.end(), [&](const Group &o) {
      return o.how == how && withoutLayer(o.name) == withoutLayer(b.bucket);
    });
    if (g == groups.end())
      g = groups.insert(g, {b.bucket, how});
    else
      g->name = withoutLayer(b.bucket);
    ++g->count;
    g->elems += b.validElems;
    g->bytes += b.sentBytes;
  }
  if (p.stage != 3 || groups.empty())
    return;
  out += "\nbuckets that are not gathered once forward and once backward:\n";
  for (const Group &g : groups)
    out += "  " + g.name + (g.count > 1 ? ", " + std::to_string(g.count) + " of them: " : ": ") +
           g.how + ", " +
           (g.how == "resident" ? countText(g.elems) + " elements" : bytesText(g.bytes)) + "\n";
}

} // namespace

StatusOr<std::string> summaryText(const LoadedModel &model, Status &fits, bool explain) {
  const PlanConfig &c = model.config;
  TRY_ASSIGN(std::optional<Target> target, targetOf(c));
  TRY_ASSIGN(SummaryPlans all, summaryPlans(model, explain));
  fits = std::move(all.fits);
  const std::vector<StagePlan> &plans = all.stages;
  const std::optional<MemoryLimit> &limit = all.limit;
  const Schedule &chosen = plans[c.stage].schedule;
  ParamCount params = countParams(chosen);
  std::string out = chosen.name + ": " + countText(params.elems) + " parameters in " +
                    std::to_string(params.tensors) + " tensors, " + countText(params.trainedElems) +
                    " trained\n";
  out += std::to_string(c.world) + " ranks, micro-batch " + std::to_string(c.microBatch) +
         ", accumulation " + std::to_string(c.gradAccum) + ", global batch " +
         std::to_string(c.trainBatch) + "\n";
  for (const std::string &a : c.assumptions)
    out += "assumed: " + a + "\n";
  for (const std::string &n : c.noEffect)
    out += "no effect: " + n + "\n";
  TRY_ASSIGN(std::optional<TargetRates> rates, targetRates(c));
  for (const std::string &n : rates ? predictionNotes(chosen, *rates) : std::vector<std::string>())
    out += "predicted times: " + n + "\n";
  for (const std::string &w : model.report.warnings)
    out += "warning: " + w + "\n";
  if (std::string masks = dropoutText(chosen); !masks.empty())
    out += masks + "\n";
  if (int64_t n = model.report.inactiveDropout)
    out += "dropout: " + std::to_string(n) + (n == 1 ? " node is" : " nodes are") +
           " inactive; --dropout on trains with all\n";
  for (const std::string &u : unusedParams(model, chosen))
    out += "unused: " + u + ": the loss does not depend on it, it stays as it is\n";

  Table t(out);
  auto kinds = [](std::initializer_list<BufferKind> k) {
    return [k = std::vector<BufferKind>(k)](const StagePlan &p) {
      int64_t sum = 0;
      for (BufferKind kind : k)
        sum += bytesOf(p.memory, {kind});
      return bytesText(sum);
    };
  };
  out += "\nmemory per rank\n";
  t.row("", plans, [&](const StagePlan &p) {
    return (p.stage == c.stage ? "> stage " : "stage ") + std::to_string(p.stage);
  });
  t.row("parameters", plans, kinds({BufferKind::Param}));
  t.row("optimizer states", plans, kinds({BufferKind::State}));
  t.row("gradient accumulators", plans, kinds({BufferKind::Accum}));
  auto carried = kinds({BufferKind::Carry});
  if (bytesOf(plans[3].memory, {BufferKind::Carry}) > 0)
    t.row("gathered and kept", plans, carried);
  t.row("inputs, constants, scalars", plans,
        kinds({BufferKind::Input, BufferKind::Const, BufferKind::Scalar}));
  t.row("temporaries at the peak", plans,
        [](const StagePlan &p) { return bytesText(p.memory.peak.bytes); });
  t.row("arena", plans, [](const StagePlan &p) { return bytesText(p.memory.arena); });
  t.row("lower bound", plans, [](const StagePlan &p) { return bytesText(p.memory.load); });
  spaceRows(t, plans, "host", &MemoryReport::host);
  spaceRows(t, plans, "nvme", &MemoryReport::nvme);
  machineRows(t, plans, c, target);
  if (limit) {
    limitRows(t, plans, *limit);
    verdictLines(out, plans, *limit, c.stage);
  }
  out += "\nsent per rank and update\n";
  t.row("parameters, gradients", plans,
        [](const StagePlan &p) { return bytesText(p.traffic.sentBytes); });
  t.row("loss, norm, counts", plans,
        [](const StagePlan &p) { return bytesText(p.traffic.scalarBytes); });
  t.row("parameters gathered", plans,
        [](const StagePlan &p) { return countText(p.traffic.gatheredElems); });
  t.row("parameters resident", plans,
        [](const StagePlan &p) { return countText(p.traffic.residentElems); });
  if (target)
    timeRows(t, plans, *target);
  if (plans[0].predicted) {
    out += "\ntime of an update\n";
    predictionRows(t, plans);
  }
  peakLines(out, plans[c.stage]);
  if (all.explanation)
    out += changesText(all.explanation->changes, all.explanation->now, all.explanation->rates,
                       limit.has_value());
  else
    out += "\n--explain plans what would lower it\n";
  if (all.recomputed)
    out += recomputeLines(*all.recomputed, c.recompute);
  if (model.gap)
    out += gapLine(*model.gap);
  exceptionLines(out, plans[c.stage]);
  size_t instrs = 0;
  for (const SchedProgram &p : chosen.programs)
    instrs += p.instrs.size();
  llvm::raw_string_ostream(out) << "\nread in " << static_cast<int64_t>(model.importMs)
                                << " ms, stage " << c.stage << " planned and verified in "
                                << static_cast<int64_t>(plans[c.stage].planMs) << " ms (" << instrs
                                << " instructions)\n";
  return out;
}

std::string memoryText(const Schedule &s) {
  std::string out;
  for (const ArenaInfo &a : s.arenas)
    out += (a.space == Space::Device ? "" : std::string(text(a.space)) + " ") + "arena " +
           std::to_string(a.bytes) + " bytes, persistent " + std::to_string(a.persistentBytes) +
           ", lower bound " + std::to_string(a.load) + "\n";
  auto line = [&](const Buffer &b, const std::string &life) {
    std::string name = "  " + b.name;
    out += name + std::string(name.size() < 44 ? 44 - name.size() : 1, ' ') +
           std::to_string(b.offset) + " +" + std::to_string(b.bytes) + "  " +
           std::string(text(b.kind)) + "  " + life + b.type.str() + "\n";
  };
  out += "persistent:\n";
  for (const Buffer &b : s.persistent)
    line(b, "");
  for (const SchedProgram &p : s.programs) {
    out += "program " + p.name + ":\n";
    for (const Buffer &b : p.own)
      if (b.last >= b.first)
        line(b, "[" + p.instrs[b.first].label + ", " + p.instrs[b.last].label + "] ");
  }
  return out;
}

} // namespace ds
