// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanGathered.h"

#include "passes/Simulate.h"
#include "tools/Fit.h"
#include "tools/PlanRecompute.h"
#include "tools/Workspace.h"

#include "llvm/ADT/SetVector.h"

namespace ds {

namespace {

// Whole buckets that a micro-batch brings to the device, in the order of their first use, in bytes.
std::vector<int64_t> broughtBuckets(const Module &m) {
  std::vector<int64_t> bytes;
  llvm::SmallPtrSet<const Value *, 32> met;
  for (Program *p : m.programs()) {
    if (!p->name.starts_with("micro."))
      continue;
    for (const Op &op : p->ops) {
      auto brings = [](const Op &o) {
        return o.kind == OpKind::AllGather || o.info().isTransfer();
      };
      if (!brings(op) || !op.bound.empty() || op.result()->type.space != Space::Device ||
          llvm::any_of(op.result()->users, [&](Op *user) { return brings(*user); }))
        continue;
      const Value *from = op.operands[0];
      while (from->def && brings(*from->def))
        from = from->def->operands[0];
      bool isBucket =
          from->isSymbol() && static_cast<const Symbol *>(from)->symbolKind == SymbolKind::Bucket;
      if (isBucket && met.insert(from).second)
        bytes.push_back(op.result()->type.bytes());
    }
    break; // all micro-batches bring the same
  }
  return bytes;
}

// How many buckets, the last ones, fit into `spare` bytes beside the one that stays anyway.
int64_t mostKept(const std::vector<int64_t> &bytes, int64_t spare) {
  int64_t kept = 1;
  for (size_t k = bytes.size(); k-- > 1 && bytes[k - 1] <= spare; ++kept)
    spare -= bytes[k - 1];
  return kept;
}

// Whether bringing parameters takes any time that nothing else hides.
StatusOr<bool> isSeen(const Schedule &s, const PlanConfig &c) {
  TRY_ASSIGN(bool addUp, timesAddUp(c));
  if (addUp)
    return true;
  TRY_ASSIGN(Rates rates, planRates(c));
  Simulation sim = simulate(s, instrTimes(s, rates));
  int64_t exposed = 0;
  for (Stream t : {Stream::Comm, Stream::H2d, Stream::Read})
    exposed += sim.streams[static_cast<size_t>(t)].exposed;
  return exposed > sim.stepNs() / 200;
}

} // namespace

StatusOr<int64_t> roomForGathered(const RecomputePlan &p, const PlanConfig &c, int64_t &total) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  std::vector<int64_t> bytes = broughtBuckets(*p.module);
  total = static_cast<int64_t>(bytes.size());
  if (!limit || bytes.empty())
    return int64_t{0};
  TRY_ASSIGN(bool seen, isSeen(p.schedule, c));
  return seen ? mostKept(bytes, limit->available() - p.schedule.arenas[0].bytes) : int64_t{0};
}

std::string keptText(int64_t kept, int64_t total) {
  std::string n = std::to_string(kept);
  return "keep_gathered " + n + ": memory is left for the last " + n + " of " +
         std::to_string(total) + " buckets to stay on the device from forward to backward";
}

Status chooseGathered(LoadedModel &model) {
  PlanConfig c = model.config;
  bool brings = (c.world > 1 && c.stage == 3) || (!c.offloadParam.empty() && c.world == 1);
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  if (!brings || !limit || c.source.count("dsplan.keep_gathered"))
    return {};
  TRY_ASSIGN(c.workspaceBytes, workspaceRule(c, threadsOfRank(c)));
  TRY_ASSIGN(PlanRounds rounds, PlanRounds::prepare(*model.module, c));
  auto planned = [&](const PlanConfig &mine) -> StatusOr<RecomputePlan> {
    if (mine.recompute == "auto")
      return planRecompute(rounds, mine);
    return rounds.plan(mine, mine.recompute.empty() ? "none" : mine.recompute);
  };
  TRY_ASSIGN(RecomputePlan first, planned(c));
  if (!checkFits(first.schedule, c).ok() || !first.values.empty()) {
    model.keep(std::move(first));
    return {};
  }
  TRY_ASSIGN(double before, updateSeconds(first.schedule, c));
  int64_t best = 0, total = 0;
  TRY_ASSIGN(int64_t most, roomForGathered(first, c, total));
  RecomputePlan fastest = std::move(first);
  for (int tries = 0; tries < 2 && most > c.keepGathered; ++tries, most /= 2) {
    PlanConfig more = c;
    more.keepGathered = most;
    TRY_ASSIGN(RecomputePlan p, planned(more));
    TRY_ASSIGN(double seconds, updateSeconds(p.schedule, c));
    if (!p.values.empty() || !checkFits(p.schedule, c).ok() || seconds >= before)
      continue;
    before = seconds;
    best = most;
    fastest = std::move(p);
  }
  if (best > 0) {
    model.config.keepGathered = best;
    model.config.assumptions.push_back(keptText(best, total));
  }
  model.keep(std::move(fastest));
  return {};
}

} // namespace ds
