// SPDX-License-Identifier: Apache-2.0
#include "test/unit/ScheduleOracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <map>
#include <set>

namespace ds {

static const Buffer &bufferOf(const Schedule &s, const SchedProgram &p, int index) {
  size_t fixed = s.persistent.size(), at = static_cast<size_t>(index);
  return at < fixed ? s.persistent[at] : p.own[at - fixed];
}

static int bufferIndex(const SchedProgram &p, PlaceRef r) {
  return r.isView ? p.views[static_cast<size_t>(r.index)].buffer : r.index;
}

const ArenaInfo *arenaOf(const Schedule &s, Space space) {
  for (const ArenaInfo &a : s.arenas)
    if (a.space == space)
      return &a;
  return nullptr;
}

/// All bytes of a buffer, or those of its type.
static ByteRange wholeOf(const Buffer &b, int64_t bytes) {
  int64_t begin = baseOf(b.type.space) + b.offset;
  return {begin, begin + bytes, 0};
}

ByteRange rangeOf(const Schedule &s, const SchedProgram &p, PlaceRef r) {
  const Buffer &b = bufferOf(s, p, bufferIndex(p, r));
  if (!r.isView)
    return wholeOf(b, b.type.bytes());
  const View &v = p.views[static_cast<size_t>(r.index)];
  int64_t begin = wholeOf(b, 0).begin + v.offset, elems = v.type.elems();
  if (!v.strides.empty() && elems > 0) {
    elems = 1;
    for (size_t d = 0; d < v.strides.size(); ++d)
      elems += (v.type.dims[d] - 1) * v.strides[d];
  }
  int64_t bytes = elems * byteSize(v.type.dtype);
  return {begin, begin + bytes, v.own ? bytes : 0};
}

Touched touchedBy(const Schedule &s, const SchedProgram &p, const Instr &i) {
  Touched t;
  for (PlaceRef r : i.ins)
    t.reads.push_back(rangeOf(s, p, r));
  for (PlaceRef r : i.outs)
    t.writes.push_back(rangeOf(s, p, r));
  if (i.work >= 0) {
    const Buffer &b = bufferOf(s, p, i.work);
    t.work = wholeOf(b, b.bytes);
  }
  return t;
}

std::array<int, kStreams> runsOn(const SchedProgram &p) {
  std::array<int, kStreams> count{};
  for (const Instr &i : p.instrs)
    count[static_cast<size_t>(i.stream)] += i.carry;
  return count;
}

std::vector<const Instr *> leftRunning(const SchedProgram &p) {
  std::array<int, kStreams> left = runsOn(p);
  std::vector<const Instr *> out;
  for (auto i = p.instrs.rbegin(); i != p.instrs.rend(); ++i)
    if (left[static_cast<size_t>(i->stream)]-- > 0)
      out.push_back(&*i);
  std::reverse(out.begin(), out.end());
  return out;
}

// -- races ------------------------------------------------------------------------------------------

static bool conflict(const Touched &a, const Touched &b, int64_t world) {
  auto meets = [&](const ByteRange &x, const ByteRange &y) {
    for (int64_t rank = 0; rank < world; ++rank)
      if (x.on(rank).meets(y.on(rank)))
        return true;
    return false;
  };
  auto writesInto = [&](const Touched &w, const Touched &o) {
    auto any = [&](const ByteRange &x) {
      auto hit = [&](const ByteRange &y) { return meets(x, y); };
      return std::any_of(o.reads.begin(), o.reads.end(), hit) ||
             std::any_of(o.writes.begin(), o.writes.end(), hit) || meets(x, o.work);
    };
    return std::any_of(w.writes.begin(), w.writes.end(), any) || any(w.work);
  };
  return writesInto(a, b) || writesInto(b, a);
}

static std::string findRaceIn(const Schedule &s, const SchedProgram &p,
                              const SchedProgram *previous) {
  constexpr size_t kMax = 1024;
  struct Node {
    const Instr *i;
    Touched touched;
    bool ended; // with the program before
  };
  std::vector<Node> nodes;
  std::vector<size_t> running;
  if (previous) {
    std::vector<const Instr *> left = leftRunning(*previous);
    for (const Instr &i : previous->instrs) {
      bool ended = std::find(left.begin(), left.end(), &i) == left.end();
      if (!ended)
        running.push_back(nodes.size());
      nodes.push_back({&i, touchedBy(s, *previous, i), ended});
    }
  }
  size_t before = nodes.size();
  for (const Instr &i : p.instrs)
    nodes.push_back({&i, touchedBy(s, p, i), false});
  size_t n = nodes.size();
  EXPECT_LE(n, kMax);
  std::vector<std::bitset<kMax>> reach(n); // reach[j][i]: i comes before j
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < j; ++i)
      reach[j][i] = nodes[i].i->stream == nodes[j].i->stream || (j >= before && nodes[i].ended);
    for (int w : nodes[j].i->waits)
      reach[j].set((j < before ? 0 : before) + static_cast<size_t>(w));
    for (int w : j < before ? std::vector<int>() : nodes[j].i->carriedWaits)
      if (static_cast<size_t>(w) < running.size())
        reach[j].set(running[static_cast<size_t>(w)]);
  }
  for (size_t k = 0; k < n; ++k)
    for (size_t j = 0; j < n; ++j)
      if (reach[j][k])
        reach[j] |= reach[k];
  for (size_t j = before; j < n; ++j)
    for (size_t i = 0; i < j; ++i)
      if (!nodes[i].ended && !reach[j][i] && !reach[i][j] &&
          conflict(nodes[i].touched, nodes[j].touched, s.world()))
        return p.name + ": " + nodes[i].i->label + " and " + nodes[j].i->label;
  // The runtime reads what is returned, and the next program may use all temporaries but those of what still runs.
  for (const Instr *i : leftRunning(p)) {
    Touched t = touchedBy(s, p, *i), end;
    for (PlaceRef r : p.returns)
      end.reads.push_back(rangeOf(s, p, r));
    for (const ArenaInfo &a : s.arenas)
      if (a.space != Space::Host) // there it waits byte by byte
        end.writes.push_back({baseOf(a.space) + a.persistentBytes, baseOf(a.space) + a.bytes, 0});
    if (conflict(t, end, s.world()))
      return p.name + ": " + i->label + " and the end of the program";
  }
  return "";
}

static bool isWindowsFirst(const SchedProgram &p) {
  return p.name == "micro.only" || p.name == "micro.first";
}

std::string findRace(const Schedule &s) {
  const SchedProgram *update = nullptr;
  for (const SchedProgram &p : s.programs)
    if (p.name == "update")
      update = &p;
  for (const SchedProgram &p : s.programs)
    if (std::string race = findRaceIn(s, p, isWindowsFirst(p) ? update : nullptr); !race.empty())
      return race;
  return "";
}

// -- tables -----------------------------------------------------------------------------------------

/// S1: sections, alignment, persistent buffers apart, views inside their buffers.
static std::string brokenPlaces(const Schedule &s) {
  for (const ArenaInfo &a : s.arenas)
    if (arenaOf(s, a.space) != &a)
      return "two arenas of one space";
  auto wrong = [&](const Buffer &b, bool fixed) {
    const ArenaInfo *a = arenaOf(s, b.type.space);
    return !a || b.offset < (fixed ? 0 : a->persistentBytes) ||
           b.offset + b.bytes > (fixed ? a->persistentBytes : a->bytes) ||
           b.offset % a->align != 0 || b.type.bytes() > b.bytes;
  };
  for (size_t i = 0; i < s.persistent.size(); ++i) {
    const Buffer &b = s.persistent[i];
    if (wrong(b, true))
      return b.name + " has wrong bytes";
    for (size_t j = 0; j < i; ++j)
      if (wholeOf(b, b.bytes).meets(wholeOf(s.persistent[j], s.persistent[j].bytes)))
        return b.name + " lies over " + s.persistent[j].name;
  }
  for (const SchedProgram &p : s.programs) {
    auto count = static_cast<int>(p.instrs.size());
    for (const Buffer &b : p.own)
      if (wrong(b, false) || b.first < 0 || b.last < b.first || b.last >= count)
        return p.name + ": " + b.name + " has wrong bytes or a wrong life";
    for (size_t v = 0; v < p.views.size(); ++v) {
      const Buffer &b = bufferOf(s, p, p.views[v].buffer);
      ByteRange r = rangeOf(s, p, {true, static_cast<int>(v)});
      ByteRange all = wholeOf(b, b.bytes);
      if (r.begin < all.begin || r.on(r.step ? s.world() - 1 : 0).end > all.end ||
          p.views[v].offset % byteSize(p.views[v].type.dtype))
        return p.name + ": " + p.views[v].name + " leaves its buffer";
    }
  }
  return "";
}

/// S4, S7, S13: every instruction on its stream, and its operands where that works.
static std::string brokenSpaces(const Schedule &s) {
  struct Way {
    InstrKind kind;
    Space from, to;
    Stream stream;
  };
  constexpr Way ways[] = {{InstrKind::Offload, Space::Device, Space::Host, Stream::D2h},
                          {InstrKind::Fetch, Space::Host, Space::Device, Stream::H2d},
                          {InstrKind::Read, Space::Nvme, Space::Host, Stream::Read},
                          {InstrKind::Write, Space::Host, Space::Nvme, Stream::Write}};
  for (const SchedProgram &p : s.programs) {
    for (const View &v : p.views)
      if (v.type.space != bufferOf(s, p, v.buffer).type.space)
        return p.name + ": " + v.name + " is not where its buffer is";
    for (const Instr &i : p.instrs) {
      auto typeOf = [&](PlaceRef r) -> const Type & {
        return r.isView ? p.views[static_cast<size_t>(r.index)].type : bufferOf(s, p, r.index).type;
      };
      const auto *way = std::find_if(std::begin(ways), std::end(ways),
                                     [&](const Way &w) { return w.kind == i.kind; });
      if (way != std::end(ways)) {
        const Type &from = typeOf(i.ins[0]), &to = typeOf(i.outs[0]);
        if (i.stream != way->stream || from.space != way->from || to.space != way->to)
          return p.name + ": " + i.label + " does not go this way";
        if (from.dims != to.dims || from.dtype != to.dtype)
          return p.name + ": " + i.label + " copies to another type";
        continue;
      }
      std::set<Space> spaces;
      for (const auto *list : {&i.ins, &i.outs})
        for (PlaceRef r : *list)
          spaces.insert(typeOf(r).space);
      if (i.work >= 0)
        spaces.insert(bufferOf(s, p, i.work).type.space);
      bool host = spaces.count(Space::Host), launch = i.kind == InstrKind::Launch;
      Stream stream = launch && host              ? Stream::Host
                      : launch                    ? Stream::Compute
                      : i.kind == InstrKind::Feed ? Stream::Feed
                                                  : Stream::Comm;
      if (spaces.size() != 1 || spaces.count(Space::Nvme) || (host && !launch) ||
          i.stream != stream)
        return p.name + ": " + i.label + " cannot work there";
    }
  }
  return "";
}

/// S3, S5, S12: lives, counts, what may run on.
static std::string brokenInstrs(const Schedule &s) {
  std::vector<std::string> running;
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs)
      if (i.carry) {
        if (i.stream == Stream::Compute || i.stream == Stream::Feed || p.name != "update")
          return p.name + ": " + i.label + " cannot run on";
        running.push_back(i.label);
      }
  for (const SchedProgram &p : s.programs)
    for (const Instr *i : leftRunning(p))
      if (!i->carry)
        return p.name + ": " + i->label + " would run on instead of what says carry";
  for (const SchedProgram &p : s.programs) {
    if (p.carried != (isWindowsFirst(p) ? running : std::vector<std::string>{}))
      return p.name + ": carried lists something else";
    for (size_t k = 0; k < p.instrs.size(); ++k) {
      const Instr &i = p.instrs[k];
      std::vector<int> used;
      for (const auto *list : {&i.ins, &i.outs})
        for (PlaceRef r : *list)
          used.push_back(bufferIndex(p, r));
      if (i.work >= 0)
        used.push_back(i.work);
      for (int b : used)
        if (const Buffer &at = bufferOf(s, p, b);
            at.kind >= BufferKind::Temp &&
            (static_cast<int>(k) < at.first || static_cast<int>(k) > at.last))
          return p.name + ": " + i.label + " touches " + at.name + " outside of its life";
      if (!isCollective(i.kind))
        continue;
      auto elems = [&](PlaceRef r) {
        return r.isView ? p.views[static_cast<size_t>(r.index)].type.elems()
                        : bufferOf(s, p, r.index).type.elems();
      };
      int64_t in = elems(i.ins[0]), out = elems(i.outs[0]);
      int64_t up = i.kind == InstrKind::AllGather ? s.world() : 1,
              down = i.kind == InstrKind::ReduceScatter ? s.world() : 1;
      if (in * up != out * down || i.elems != std::max(in, out))
        return p.name + ": " + i.label + " has wrong counts";
    }
  }
  return "";
}

/// S10: no instruction overwrites its operands, unless element by element in their very place, and what updates in place
/// does.
static std::string brokenAlias(const Schedule &s) {
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs) {
      Touched t = touchedBy(s, p, i);
      for (size_t o = 0; o < t.writes.size(); ++o) {
        const ByteRange &w = t.writes[o];
        int tied = i.kind == InstrKind::Launch
                       ? tiedOperand(i.op, static_cast<int>(o), static_cast<int>(i.ins.size()))
                       : -1;
        if (tied >= 0 && !(t.reads[static_cast<size_t>(tied)] == w))
          return p.name + ": " + i.label + " updates in place, but elsewhere";
        bool clash = t.work.meets(w);
        for (size_t k = 0; k < o; ++k)
          clash |= t.writes[k].meets(w);
        for (size_t k = 0; k < t.reads.size(); ++k) {
          const ByteRange &r = t.reads[k];
          if (!r.meets(w) && r.step == 0)
            continue;
          bool meets = false;
          for (int64_t rank = 0; rank < s.world(); ++rank)
            meets |= r.on(rank).meets(w.on(rank));
          if (!meets)
            continue;
          int64_t at = -1;
          if (i.op == OpKind::Pack && k < i.attrs.list("at").size())
            at = i.attrs.list("at")[k] *
                 byteSize(bufferOf(s, p, bufferIndex(p, i.outs[o])).type.dtype);
          bool fine = false;
          if (i.kind != InstrKind::Launch) // own slice and whole
            fine = r.begin == w.begin && (r.step != 0) != (w.step != 0) &&
                   i.kind != InstrKind::AllReduce;
          else if (i.op == OpKind::Pack)
            fine = r.begin - w.begin == at && r.step == 0;
          else
            fine = r == w && ((o == 0 && mayOverwrite(i.op, static_cast<int>(k))) ||
                              tied == static_cast<int>(k));
          clash |= !fine;
        }
        if (clash)
          return p.name + ": " + i.label + " overwrites what it reads";
      }
      for (const ByteRange &r : t.reads)
        if (r.meets(t.work))
          return p.name + ": " + i.label + " reads its workspace";
    }
  return "";
}

/// S6, byte by byte: stored once in a window, then added to once in each later micro-batch, and read only
/// when it holds something.
static std::string brokenSums(const Schedule &s) {
  struct Sum {
    int stored = 0, added = 0;
  };
  std::map<int64_t, Sum> sums; // by segment; all accesses of accumulators cut them
  std::set<int64_t> cuts;
  auto isAccum = [&](const SchedProgram &p, PlaceRef r) {
    return bufferOf(s, p, bufferIndex(p, r)).kind == BufferKind::Accum;
  };
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs)
      for (const auto *list : {&i.ins, &i.outs})
        for (PlaceRef r : *list)
          for (int64_t rank = 0; rank < s.world(); ++rank)
            cuts.insert({rangeOf(s, p, r).on(rank).begin, rangeOf(s, p, r).on(rank).end});
  for (const Buffer &b : s.persistent)
    if (b.kind == BufferKind::Accum)
      cuts.insert({wholeOf(b, b.type.bytes()).begin, wholeOf(b, b.type.bytes()).end});
  std::vector<int64_t> at(cuts.begin(), cuts.end());
  auto each = [&](const ByteRange &r, auto body) {
    for (auto c = std::lower_bound(at.begin(), at.end(), r.begin); c != at.end() && *c < r.end; ++c)
      body(*c);
  };
  for (const SchedProgram &p : s.programs) {
    if (p.name == "start")
      continue;
    for (auto &[segment, sum] : sums)
      sum.added = 0;
    bool first = isWindowsFirst(p), update = p.name == "update";
    for (const Instr &i : p.instrs) {
      std::set<int64_t> read;
      std::string wrong;
      for (PlaceRef r : i.ins)
        if (isAccum(p, r))
          each(rangeOf(s, p, r), [&](int64_t c) {
            read.insert(c);
            if (!sums[c].stored)
              wrong = " reads a sum that does not exist";
          });
      bool pack = i.kind == InstrKind::Launch && i.op == OpKind::Pack;
      if (i.kind == InstrKind::Launch && i.op == OpKind::Accumulate &&
          i.attrs.flag("first") != (i.ins.size() == 1))
        wrong = " says first without being it";
      for (PlaceRef r : i.outs)
        if (isAccum(p, r))
          each(rangeOf(s, p, r), [&](int64_t c) {
            if (read.count(c) && pack)
              return; // computed in place
            if (!read.count(c) && (sums[c].stored++ || p.name == "micro.mid"))
              wrong = " stores a sum again";
            if (read.count(c) && sums[c].added++)
              wrong = " adds to a sum twice";
            if (!read.count(c))
              sums[c].added = 1; // this micro-batch is in it
          });
      if (!wrong.empty())
        return p.name + ": " + i.label + wrong;
    }
    for (auto &[segment, sum] : sums)
      if (!first && !update && sum.stored && !sum.added)
        return p.name + ": a sum lacks this micro-batch";
    for (PlaceRef r : p.returns)
      if (isAccum(p, r) && !sums[rangeOf(s, p, r).begin].stored)
        return p.name + ": returns a sum that does not exist";
  }
  return "";
}

std::string brokenTable(const Schedule &s) {
  for (auto *rule : {brokenPlaces, brokenSpaces, brokenInstrs, brokenAlias, brokenSums})
    if (std::string broken = rule(s); !broken.empty())
      return broken;
  return "";
}

// -- verdict ----------------------------------------------------------------------------------------

Verdict judge(const Schedule &bad, const Outcome &good, bool mayComputeOther, unsigned seed,
              int runs) {
  for (auto *rule : {brokenPlaces, brokenSpaces})
    if (std::string broken = rule(bad); !broken.empty())
      return {Verdict::Matters, Verdict::Table, false, false, broken}; // nothing to run on
  std::string broken = brokenTable(bad), race = findRace(bad);
  if (race.empty() && !broken.empty())
    return {Verdict::Matters, Verdict::Table, false, false, broken};
  std::vector<Outcome> outcomes = runWindows(bad, seed, runs);
  const Outcome &one = outcomes[0];
  bool vary =
      std::any_of(outcomes.begin(), outcomes.end(), [&](const Outcome &o) { return !(o == one); });
  EXPECT_FALSE(race.empty() && vary) << "runs differ, but brute force finds no race\n"
                                     << printSchedule(bad);
  if (!race.empty())
    return {Verdict::Matters, Verdict::Race, vary || !(one == good), false, race};
  for (const Outcome &o : outcomes)
    if (o.stuck || o.garbage || o.ranksDiffer)
      return {Verdict::Matters, Verdict::Run, false, false,
              o.stuck     ? "stuck"
              : o.garbage ? "reads unwritten bytes"
                          : "ranks differ"};
  if (one == good)
    return {Verdict::Harmless, Verdict::None, false, one.foreign, ""};
  if (mayComputeOther)
    return {Verdict::OtherProgram, Verdict::None, false, one.foreign, ""};
  return {Verdict::Matters, Verdict::Run, false, false, "another outcome"};
}

} // namespace ds
