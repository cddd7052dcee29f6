// SPDX-License-Identifier: Apache-2.0
#include "tools/Advice.h"

#include "frontend/Units.h"
#include "tools/Changes.h"
#include "tools/Fit.h"
#include "tools/PlanRecompute.h"

#include <algorithm>

namespace ds {

namespace {

std::string spacesText(const PlannedChange &p) {
  std::string text = bytesText(p.memory.arena) + " of device memory";
  if (p.memory.host.arena > 0)
    text += ", " + bytesText(p.memory.host.arena) + " of host memory";
  if (p.memory.nvme.arena > 0)
    text += ", " + bytesText(p.memory.nvme.arena) + " on nvme";
  return text;
}

std::string largest(const std::vector<MemoryPart> &parts) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < parts.size() && i < kShown && parts[i].bytes > 0; ++i)
    text += (i ? ", " : "") + partText(parts[i]);
  return text;
}

/// Looks for what fits, from changes of one thing to changes of everything.
class Adviser {
public:
  Adviser(const LoadedModel &model, const MemoryLimit &limit, int threads)
      : model(model), c(model.config), limit(limit), threads(threads) {}

  Status advise(Status misfit, const Schedule *s, const std::vector<PlannedChange> *changes) {
    if (s) {
      TRY_ASSIGN(now, planAsItIs(model, *s));
      misfit = std::move(misfit).note(peakText(now->memory));
      std::vector<PlannedChange> own;
      if (!changes) {
        TRY_ASSIGN(own, loweringChanges(model, *now, threads));
      }
      for (const PlannedChange &p : changes ? *changes : own)
        if (p.set[0].first != "world")
          consider(p);
    } else { // what the planner had left when it gave up
      TRY_ASSIGN(std::optional<PlannedChange> p, tried(everything("cpu", c.world, c.stage)));
      if (p)
        misfit = std::move(misfit).note(peakText(p->memory));
    }
    if (!best)
      TRY(combine());
    if (best)
      return std::move(misfit).note(text(*best));
    if (least)
      misfit = std::move(misfit).note("nothing that was tried fits; the least is " +
                                      spacesText(*least) + ", with " + least->flags);
    TRY(moreRanks());
    return best ? std::move(misfit).note(text(*best)) : std::move(misfit);
  }

private:
  // Nothing: the model does not allow it, or --offload auto finds no plan.
  StatusOr<std::optional<PlannedChange>> tried(Settings set) const {
    StatusOr<PlannedChange> p = planChange(model, std::move(set), threads);
    if (!p.ok() && p.status().code() == Code::Internal)
      return std::move(p).status();
    return p.ok() ? std::optional(std::move(*p)) : std::nullopt;
  }
  void consider(PlannedChange p) {
    if (p.fits && (!best || p.sampleSeconds < best->sampleSeconds))
      best = std::move(p);
  }

  // Everything that can leaves the device, the rest is computed again.
  Settings everything(const char *place, int64_t world, int64_t stage) const {
    Settings s = {{"recompute", "auto"}, {"offload_activations", "."}};
    if (world == 1 || stage > 0)
      s.emplace_back("offload_optimizer", place);
    if (world == 1 || stage == 3)
      s.emplace_back("offload_param", place);
    if (c.offload == "auto")
      s.emplace_back("offload", "none");
    if (place == std::string("nvme"))
      addFolder(s);
    return s;
  }
  Settings automatic() const {
    Settings s;
    if (c.offload != "auto")
      s.emplace_back("offload", "auto");
    if (!c.recompute.empty() && c.recompute != "auto")
      s.emplace_back("recompute", "auto");
    if (onDisk)
      addFolder(s);
    return s;
  }
  void addFolder(Settings &s) const {
    if (c.nvmePath.empty())
      s.emplace_back("nvme_path", ".");
  }
  Settings atStage3(Settings s, int64_t world) const {
    if (world > 1 && c.stage < 3)
      s.emplace_back("stage", "3");
    if (world != c.world)
      s.emplace_back("world", std::to_string(world));
    return s;
  }
  static Settings joined(Settings s, const Settings &more) {
    s.insert(s.end(), more.begin(), more.end());
    return s;
  }
  // The least that these ranks can need; with it, what is faster and fits as well.
  Status combine() {
    for (const char *place : {"cpu", "nvme"}) {
      Settings all = atStage3(everything(place, c.world, 3), c.world);
      TRY_ASSIGN(std::optional<PlannedChange> p,
                 tried(joined(all, dividedMicroBatch(model, c.microBatch))));
      if (!p) {
        TRY_ASSIGN(p, tried(all));
      }
      if (!p || (least && p->memory.host.arena >= least->memory.host.arena))
        break;
      onDisk = place == std::string("nvme");
      least = std::move(p);
      if (least->fits || limit.host == 0 || least->memory.host.arena <= limit.host)
        break;
    }
    if (!least || !least->fits)
      return {};
    for (int64_t part = 1; part <= c.microBatch && !best; ++part) {
      Settings rows = dividedMicroBatch(model, part);
      Settings set = joined(atStage3(automatic(), c.world), rows);
      if ((part > 1 && rows.empty()) || set.empty())
        continue;
      TRY_ASSIGN(std::optional<PlannedChange> p, tried(std::move(set)));
      if (p)
        consider(std::move(*p));
    }
    consider(*least);
    return {};
  }

  // Whether more of them would do, one sample at a time each.
  Status moreRanks() {
    for (int64_t times : {2, 4, 8}) {
      Settings rows = dividedMicroBatch(model, c.microBatch);
      int64_t samples = c.microBatch * c.gradAccum;
      if (!rows.empty() && samples % times == 0)
        rows.back().second = std::to_string(samples / times);
      auto at = [&](Settings s) { return joined(atStage3(std::move(s), times * c.world), rows); };
      TRY_ASSIGN(std::optional<PlannedChange> p,
                 tried(at(everything(onDisk ? "nvme" : "cpu", times * c.world, 3))));
      if (!p || !p->fits)
        continue;
      TRY_ASSIGN(std::optional<PlannedChange> chosen, tried(at(automatic())));
      consider(chosen ? std::move(*chosen) : std::move(*p));
      break;
    }
    return {};
  }

  std::string peakText(const MemoryReport &m) const {
    bool host = m.arena <= limit.available() && limit.host > 0;
    const PeakReport &peak = host ? m.host.peak : m.peak;
    std::string parts = largest(partsOfPeak(peak, host ? m.host.persistent : m.persistent));
    return std::string(host ? "host" : "device") + " memory is fullest in " + peak.program +
           " at " + peak.where() + ": " + parts;
  }
  std::string text(const PlannedChange &p) const {
    std::string rates = *planRatesName(c); // its errors ended the planning
    return "fits with " + p.flags + ": " + spacesText(p) +
           (now ? ", a sample is " + slowerText(p, *now) + " by the rates of " + rates : "");
  }

  const LoadedModel &model;
  const PlanConfig &c;
  const MemoryLimit &limit;
  int threads;
  bool onDisk = false;
  std::optional<PlannedChange> now, best, least;
};

} // namespace

Status withAdvice(Status misfit, const LoadedModel &model, const Schedule *s, int threads,
                  const std::vector<PlannedChange> *changes) {
  StatusOr<std::optional<MemoryLimit>> limit = memoryLimit(model.config);
  if (misfit.code() != Code::DoesNotFit || passOptions().watches() || !limit.ok() || !*limit)
    return misfit;
  return Adviser(model, **limit, threads).advise(std::move(misfit), s, changes);
}

} // namespace ds
