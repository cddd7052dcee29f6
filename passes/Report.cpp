// SPDX-License-Identifier: Apache-2.0
#include "passes/Report.h"

#include "ir/BucketMap.h"
#include "passes/Recompute.h"

#include <algorithm>
#include <set>

namespace ds {

namespace {

int64_t rounded(int64_t bytes, int64_t align) { return (bytes + align - 1) / align * align; }

struct Peak {
  int64_t bytes = -1;
  int at = 0;
};

Peak peakIn(const SchedProgram &p, Space space, int64_t align) {
  std::vector<int64_t> delta(p.instrs.size() + 1, 0);
  for (const Buffer &b : p.own) {
    if (b.last < b.first || b.type.space != space)
      continue;
    delta[b.first] += rounded(b.bytes, align);
    delta[b.last + 1] -= rounded(b.bytes, align);
  }
  Peak peak;
  int64_t live = 0;
  for (size_t i = 0; i < p.instrs.size(); ++i) {
    live += delta[i];
    if (live > peak.bytes)
      peak = {live, static_cast<int>(i)};
  }
  return peak;
}

} // namespace

PeakReport peakOf(const Schedule &s, Space space) {
  auto arena = std::find_if(s.arenas.begin(), s.arenas.end(),
                            [&](const ArenaInfo &a) { return a.space == space; });
  const SchedProgram *program = nullptr;
  Peak best;
  if (arena != s.arenas.end())
    for (const SchedProgram &p : s.programs)
      if (Peak k = peakIn(p, space, arena->align); k.bytes > best.bytes) {
        best = k;
        program = &p;
      }
  PeakReport r;
  if (!program || program->instrs.empty())
    return r;
  const Instr &i = program->instrs[best.at];
  r.bytes = best.bytes;
  r.program = program->name;
  r.instr = i.label;
  if (i.origin >= 0) {
    r.module = s.origins[i.origin].module;
    r.node = s.origins[i.origin].node;
  }
  for (const Buffer &b : program->own)
    if (b.type.space == space && b.first <= best.at && best.at <= b.last)
      r.live.push_back({b.name, b.bytes});
  std::stable_sort(r.live.begin(), r.live.end(),
                   [](const LiveBuffer &a, const LiveBuffer &b) { return a.bytes > b.bytes; });
  return r;
}

std::string PeakReport::where() const {
  std::string origin = module;
  if (!node.empty())
    origin += (origin.empty() ? "node " : ", node ") + node;
  return "instruction " + instr + (origin.empty() ? "" : " (" + origin + ")");
}

MemoryReport memoryReport(const Schedule &s) {
  MemoryReport r;
  if (s.arenas.empty())
    return r;
  const ArenaInfo &arena = s.arenas[0];
  r.arena = arena.bytes;
  r.load = arena.load;
  for (const ArenaInfo &a : s.arenas)
    if (a.space != Space::Device) {
      SpaceReport &other = a.space == Space::Host ? r.host : r.nvme;
      other.arena = a.bytes;
      other.staging = a.bytes - a.persistentBytes;
      for (const Buffer &b : s.persistent)
        if (b.type.space == a.space)
          other.persistent[b.kind] += rounded(b.bytes, a.align);
      other.peak = peakOf(s, a.space);
    }
  for (const Buffer &b : s.persistent)
    if (b.type.space == Space::Device)
      r.persistent[b.kind] += rounded(b.bytes, arena.align);
  r.peak = peakOf(s, Space::Device);
  return r;
}

std::string withoutLayer(const std::string &name) {
  for (size_t begin = 0; begin < name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    if (end > begin && name.find_first_not_of("0123456789", begin) >= end)
      return name.substr(0, begin) + "*" + name.substr(end);
    begin = end + 1;
  }
  return name;
}

std::string_view nounOf(BufferKind k) {
  switch (k) {
  case BufferKind::Param:
    return "parameters";
  case BufferKind::State:
    return "optimizer states";
  case BufferKind::Accum:
    return "gradient accumulators";
  case BufferKind::Scalar:
    return "scalars";
  case BufferKind::Const:
    return "constants";
  case BufferKind::Carry:
    return "parameters gathered and kept";
  case BufferKind::Input:
    return "inputs";
  default:
    return "temporaries";
  }
}

static std::vector<MemoryPart> sorted(std::vector<MemoryPart> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const MemoryPart &a, const MemoryPart &b) { return a.bytes > b.bytes; });
  return parts;
}

std::vector<MemoryPart> temporariesOfPeak(const PeakReport &peak) {
  std::map<std::string, MemoryPart> byName;
  for (const LiveBuffer &b : peak.live) {
    MemoryPart &p =
        byName.try_emplace(withoutLayer(b.name), MemoryPart{b.name, 0, 0}).first->second;
    p.bytes += b.bytes;
    if (++p.count > 1)
      p.name = withoutLayer(b.name);
  }
  std::vector<MemoryPart> parts;
  for (auto &[name, part] : byName)
    parts.push_back(part);
  return sorted(std::move(parts));
}

std::vector<MemoryPart> partsOfPeak(const PeakReport &peak,
                                    const std::map<BufferKind, int64_t> &persistent) {
  std::vector<MemoryPart> parts = temporariesOfPeak(peak);
  for (auto [kind, bytes] : persistent)
    parts.push_back({std::string(nounOf(kind)), bytes, 1});
  return sorted(std::move(parts));
}

// Calls fn(instruction, what is repeated, for which time) for what backward repeats.
template <typename Fn> static void forEachRepeated(const Schedule &s, Fn fn) {
  auto micro = std::find_if(s.programs.begin(), s.programs.end(),
                            [](auto &p) { return p.name.starts_with("micro."); });
  if (micro == s.programs.end())
    return;
  for (const Instr &i : micro->instrs) {
    const std::string pass = i.origin < 0 ? "" : s.origins[i.origin].pass;
    if (pass != kRecomputePass && pass != kSweepPass)
      continue;
    size_t end = i.label.rfind(".re");
    int time = 1;
    for (; end != std::string::npos && end >= 3 && i.label.compare(end - 3, 3, ".re") == 0;
         end -= 3)
      ++time;
    fn(*micro, i, i.label.substr(0, end), time);
  }
}

int timesNested(const Schedule &s) {
  int most = 0;
  bool sweeps = false;
  forEachRepeated(s, [&](const SchedProgram &, const Instr &i, const std::string &, int time) {
    most = std::max(most, time);
    sweeps |= s.origins[i.origin].pass == kSweepPass;
  });
  return sweeps ? most : 0;
}

std::vector<MemoryPart> recomputedParts(const Schedule &s) {
  std::map<std::string, MemoryPart> byName;
  forEachRepeated(s, [&](const SchedProgram &micro, const Instr &i, const std::string &name, int) {
    MemoryPart &part = byName.try_emplace(withoutLayer(name), MemoryPart{name, 0, 0}).first->second;
    for (PlaceRef out : i.outs)
      part.bytes += resolve(s, micro, out).type->bytes();
    if (++part.count > 1)
      part.name = withoutLayer(name);
  });
  std::vector<MemoryPart> parts;
  for (auto &[name, part] : byName)
    parts.push_back(part);
  return sorted(std::move(parts));
}

static std::string timesText(int times) {
  return times < 2 ? times == 0 ? "" : ", nested"
                   : ", nested: some of them " + std::to_string(times) + " times";
}

std::string recomputedText(const Schedule &s) {
  int64_t launches = 0;
  for (const MemoryPart &p : recomputedParts(s))
    launches += p.count;
  return launches == 0 ? ""
                       : "recompute: backward repeats " + std::to_string(launches) +
                             (launches == 1 ? " launch" : " launches") + " of a micro-batch" +
                             timesText(timesNested(s));
}

std::string dropoutText(const Schedule &s) {
  std::set<int64_t> masks, others; // by key
  std::string first;
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs) {
      if (i.kind != InstrKind::Launch || i.op != OpKind::Dropout)
        continue;
      masks.insert(i.attrs.i("key"));
      if (i.attrs.i("rows") != 0)
        continue;
      others.insert(i.attrs.i("key"));
      if (first.empty())
        first = i.label;
    }
  if (masks.empty())
    return "";
  std::string text = "dropout: " + std::to_string(masks.size()) +
                     (masks.size() == 1 ? " mask" : " masks") + ", drawn by sample";
  if (!others.empty())
    text += "; but " + std::to_string(others.size()) + " by rank and micro-batch, first " + first +
            ": another split of the batch draws other masks there";
  return text;
}

int64_t runsPerUpdate(const std::string &program, int64_t gradAccum) {
  if (program == "start" || program == "eval")
    return 0;
  return program == "micro.mid" ? gradAccum - 2 : 1;
}

int64_t sentBytes(const Schedule &s, const SchedProgram &p, const Instr &i) {
  int64_t world = s.world();
  // An all_reduce is small, and every rank reads all others' vectors.
  int64_t vectors = i.kind == InstrKind::AllReduce ? world : 1;
  return vectors * i.elems / world * (world - 1) * byteSize(resolve(s, p, i.ins[0]).type->dtype);
}

TrafficReport trafficReport(const Schedule &s) {
  TrafficReport r;
  for (const BucketInfo &b : s.buckets) {
    BucketTraffic t;
    t.bucket = b.name;
    for (const SegmentInfo &g : b.segments)
      t.validElems += Type(b.dtype, g.shape).elems();
    t.paddingElems = b.elems - t.validElems;
    t.resident = s.step.stage == 3 && !b.sharded;
    (b.sharded ? r.gatheredElems : r.residentElems) += t.validElems;
    r.buckets.push_back(t);
  }
  BucketMap bucketOf(s);
  for (size_t k = 0; k < s.programs.size(); ++k) {
    const SchedProgram &p = s.programs[k];
    for (const Instr &i : p.instrs) {
      if (!isCollective(i.kind))
        continue;
      int64_t runs = runsPerUpdate(p.name, s.step.gradAccum);
      int64_t bytes = runs * sentBytes(s, p, i);
      int b = bucketOf.bucketOf(k, resolve(s, p, i.outs[0]).bufferIndex);
      if (b < 0) {
        r.scalarBytes += bytes;
        continue;
      }
      bool gather = i.kind == InstrKind::AllGather;
      (gather ? r.buckets[b].gathers : r.buckets[b].reductions) += runs;
      if (gather && resolve(s, p, i.outs[0]).buffer->kind == BufferKind::Carry)
        r.buckets[b].carried = true;
      r.buckets[b].sentBytes += bytes;
      r.sentBytes += bytes;
    }
  }
  for (BucketTraffic &b :
       r.buckets) // forward and backward need it once each, unless several layers do
    b.tied = s.step.stage == 3 && !b.resident && !b.carried && b.gathers > 2 * s.step.gradAccum;
  return r;
}

} // namespace ds
