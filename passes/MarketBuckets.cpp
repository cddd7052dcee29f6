// SPDX-License-Identifier: Apache-2.0
//
// What a bucket costs at each place is read off whole plans that move all of them there: the instructions and buffers that
// belong to it. A persistent buffer belongs to the bucket that its name begins with; a temporary to the bucket that it is
// fetched, read or gathered from, or that it is packed, reduced or accumulated into.
#include "passes/Market.h"

#include "passes/Report.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

namespace ds {

namespace {

class PlanReader {
public:
  PlanReader(const RecomputeModel &m, const Schedule &s, const Rates &r) : schedule(s), rates(r) {
    for (size_t k = 0; k < m.launches.size(); ++k)
      for (const Value *v : m.launches[k].op->results)
        launchOf[v->name] = static_cast<int>(k);
    firstBackward = m.firstBackward;
    for (size_t b = 0; b < s.buckets.size(); ++b)
      numberOf[s.buckets[b].name] = static_cast<int>(b);
    for (const Buffer &b : s.persistent)
      owner.push_back(bucketOfName(b));
    options.resize(s.buckets.size());
    for (size_t b = 0; b < s.persistent.size(); ++b)
      addPersistent(s.persistent[b], owner[b]);
    for (const SchedProgram &p : s.programs)
      if (runsPerUpdate(p.name, s.step.gradAccum) > 0)
        readProgram(p);
    for (Market::Option &o : options) // one that stays already
      if (llvm::any_of(o.windows, [&](const Market::Window &w) {
            return w.first < firstBackward && w.end > firstBackward;
          }))
        o.again = 0;
  }

  std::vector<Market::Option> options; // by bucket
  Market::Option rest;                 // what belongs to none, but for
  MarketSeconds launchSeconds{};       // launches of the micro-batch
  int64_t constBytes = 0;              // and constants

private:
  int bucketOfName(const Buffer &b) const {
    if (b.kind != BufferKind::Param && b.kind != BufferKind::State && b.kind != BufferKind::Accum)
      return -1;
    for (llvm::StringRef name = b.name;; name = name.rsplit('.').first)
      if (auto it = numberOf.find(name); it != numberOf.end())
        return it->second;
      else if (!name.contains('.'))
        return -1;
  }

  void addPersistent(const Buffer &b, int bucket) {
    int64_t bytes = (b.bytes + 255) / 256 * 256;
    if (b.type.space == Space::Device && bucket < 0 && b.kind != BufferKind::Carry)
      (b.kind == BufferKind::Const ? constBytes : rest.device) += bytes;
    if (bucket >= 0 && b.type.space != Space::Nvme)
      (b.type.space == Space::Device ? options[bucket].device : options[bucket].host) += bytes;
  }

  // The launch of the micro-batch that i is, or -1. What passes make of several stands where its last result was made.
  int launchAt(const SchedProgram &p, const Instr &i) const {
    if (i.kind != InstrKind::Launch || i.outs.empty())
      return -1;
    auto it = launchOf.find(*resolve(schedule, p, i.outs.back()).name);
    return it == launchOf.end() ? -1 : it->second;
  }

  // Moves or makes what buckets are made of.
  static bool carriesBuckets(const Instr &i) {
    return i.kind != InstrKind::Launch || i.op == OpKind::Pack || i.op == OpKind::Accumulate ||
           i.op == OpKind::Cast || i.op == OpKind::Copy || info(i.op).trait == Trait::Optimizer;
  }

  int bufferOf(const SchedProgram &p, PlaceRef place) const {
    return place.isView ? p.views[place.index].buffer : place.index;
  }

  // The bucket of every buffer of p, or -1.
  std::vector<int> ownersIn(const SchedProgram &p) const {
    std::vector<int> of = owner;
    of.resize(owner.size() + p.own.size(), -1);
    auto pass = [&](const Instr &i, const std::vector<PlaceRef> &from,
                    const std::vector<PlaceRef> &to) {
      if (!carriesBuckets(i) || launchAt(p, i) >= 0)
        return;
      for (PlaceRef f : from)
        for (PlaceRef t : to)
          if (int &o = of[bufferOf(p, t)];
              o < 0 && bufferOf(p, t) >= static_cast<int>(owner.size()))
            o = of[bufferOf(p, f)];
    };
    for (const Instr &i : p.instrs)
      pass(i, i.ins, i.outs);
    for (auto i = p.instrs.rbegin(); i != p.instrs.rend(); ++i)
      pass(*i, i->outs, i->ins);
    return of;
  }

  void readProgram(const SchedProgram &p) {
    auto runs = static_cast<double>(runsPerUpdate(p.name, schedule.step.gradAccum));
    std::vector<int> of = ownersIn(p);
    // Of buffers: the launches of the micro-batch that touch them, and those that transfers stand at.
    struct Life {
      int first = INT32_MAX, end = -1;
      void add(int from, int to) {
        first = std::min(first, from);
        end = std::max(end, to);
      }
    };
    std::vector<Life> touched(of.size()), lives(of.size());
    int at = 0; // behind the last launch
    std::vector<int> next = nextLaunches(p);
    bool last = p.name == "micro.last" || p.name == "micro.only";
    bool isFirst = p.name == "micro.first" || p.name == "micro.only";
    for (size_t k = 0; k < p.instrs.size(); ++k) {
      const Instr &i = p.instrs[k];
      double s = ds::seconds(schedule, p, i, rates) * runs;
      auto stream = static_cast<int>(i.stream);
      if (int launch = launchAt(p, i); launch >= 0) {
        // The first forward phase is what the host's part of the update before may run beside.
        if (launch >= firstBackward || !isFirst)
          addBackward(launchSeconds, s);
        else
          launchSeconds[stream] += s;
        for (const auto *list : {&i.ins, &i.outs})
          for (PlaceRef place : *list)
            touched[bufferOf(p, place)].add(launch, launch + 1);
        at = launch + 1;
        continue;
      }
      // A reduced plan does not have all launches: weights arrive right before one, gradients leave right behind one.
      int stands = arrives(i) ? std::max(at, next[k]) : at;
      for (const auto *list : {&i.ins, &i.outs})
        for (PlaceRef place : *list)
          lives[bufferOf(p, place)].add(stands, stands + 1);
      share(p, i, of, s, runs);
    }
    for (size_t b = owner.size(); last && b < of.size(); ++b) {
      const Buffer &own = p.own[b - owner.size()];
      Life t = touched[b], life = lives[b];
      if (of[b] >= 0 && t.first < t.end && own.type.space == Space::Device)
        options[of[b]].windows.push_back({t.first, t.end, std::min(t.first, life.first),
                                          std::max(t.end, life.end),
                                          (own.bytes + 255) / 256 * 256});
    }
  }

  static bool arrives(const Instr &i) {
    return i.kind == InstrKind::AllGather || i.kind == InstrKind::Fetch ||
           i.kind == InstrKind::Read;
  }

  // By instruction: the next launch of the micro-batch, or -1.
  std::vector<int> nextLaunches(const SchedProgram &p) const {
    std::vector<int> next(p.instrs.size());
    int launch = -1;
    for (size_t k = p.instrs.size(); k-- > 0;) {
      if (int at = launchAt(p, p.instrs[k]); at >= 0)
        launch = at;
      next[k] = launch;
    }
    return next;
  }

  // By bytes; what it takes beside them belongs to nobody if several buckets share it.
  void share(const SchedProgram &p, const Instr &i, const std::vector<int> &of, double s,
             double runs) {
    auto stream = static_cast<int>(i.stream);
    llvm::SmallDenseMap<int, double, 4> bytes;
    double all = 0;
    for (const auto *list : {&i.ins, &i.outs})
      for (PlaceRef place : *list)
        if (int b = of[bufferOf(p, place)]; b >= 0) {
          PlaceInfo info = resolve(schedule, p, place);
          bytes[b] += static_cast<double>(info.bytes);
          all += static_cast<double>(info.bytes);
        }
    if (all == 0) {
      rest.seconds[stream] += s;
      return;
    }
    if (bytes.size() > 1) {
      double beside = std::min(s, rates.launch * runs);
      rest.seconds[stream] += beside;
      s -= beside;
    }
    int path = p.name != "update"           ? -1
               : i.stream == Stream::Host   ? kHostUpdates
               : i.kind == InstrKind::Fetch ? kNewWeights
                                            : -1;
    for (auto [b, part] : bytes) {
      options[b].seconds[stream] += s * part / all;
      if (i.kind == InstrKind::Fetch && p.name != "update")
        options[b].again =
            std::max(options[b].again, s * static_cast<double>(schedule.step.gradAccum) / runs);
      if (path >= 0)
        options[b].seconds[path] += s * part / all;
    }
  }

  const Schedule &schedule;
  const Rates &rates;
  int firstBackward = 0;
  llvm::StringMap<int> launchOf, numberOf;
  std::vector<int> owner; // of persistent buffers: bucket or -1
};

} // namespace

void addPlace(Market &market, const RecomputeModel &m, const PlacedPlan &plan, const Rates &r) {
  PlanReader read(m, *plan.schedule, r);
  if (!plan.isReduced) {
    market.launchSeconds = read.launchSeconds;
    market.constBytes = read.constBytes;
  }
  for (int s = 0; s < kPaths; ++s)
    read.rest.seconds[s] += market.launchSeconds[s];
  read.rest.device += market.constBytes;
  // What belongs to no bucket is nearly the same everywhere; a mixture of two plans needs what either of them does.
  read.options.push_back(read.rest);
  market.buckets.resize(read.options.size());
  for (size_t b = 0; b < read.options.size(); ++b) {
    bool isBucket = b < plan.schedule->buckets.size();
    market.buckets[b].name = isBucket ? plan.schedule->buckets[b].name : "";
    read.options[b].optimizer = plan.optimizer;
    read.options[b].param = plan.param;
    market.buckets[b].options.push_back(std::move(read.options[b]));
  }
}

} // namespace ds
