// SPDX-License-Identifier: Apache-2.0
#include "test/unit/ScheduleOracleCode.h"

namespace ds::oracle {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9u;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

uint64_t hashText(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (char c : text)
    h = mix(h, static_cast<unsigned char>(c));
  return h | 1; // never 0
}

/// The buffer that a place lies in.
static const Buffer &whole(const Schedule &s, const SchedProgram &p, PlaceRef r) {
  auto index =
      static_cast<size_t>(r.isView ? p.views[static_cast<size_t>(r.index)].buffer : r.index);
  return index < s.persistent.size() ? s.persistent[index] : p.own[index - s.persistent.size()];
}

/// Cuts memory where any place begins or ends, and where a pack, gather or scatter puts such a point.
void Code::cutCells() {
  for (const ArenaInfo &a : s.arenas)
    for (int64_t at : {int64_t{0}, a.persistentBytes, a.bytes})
      bounds.push_back(baseOf(a.space) + at);
  // How far bytes reach that a copy moves to or from `at`.
  auto endOf = [&](int64_t at) {
    auto space = static_cast<Space>(at >> 48);
    return baseOf(space) + arenaOf(s, space)->bytes;
  };
  std::vector<std::array<int64_t, 3>> copies; // from, to, bytes
  auto add = [&](const ByteRange &r) {
    for (int64_t rank = 0; rank < (r.step ? world : 1); ++rank)
      bounds.insert(bounds.end(), {r.on(rank).begin, r.on(rank).end});
  };
  for (const Buffer &b : s.persistent)
    add({baseOf(b.type.space) + b.offset, baseOf(b.type.space) + b.offset + b.type.bytes()});
  for (const SchedProgram &p : s.programs) {
    for (const Instr &i : p.instrs) {
      Touched t = touchedBy(s, p, i);
      for (const auto *list : {&t.reads, &t.writes})
        for (const ByteRange &r : *list)
          add(r);
      add(t.work);
      if (i.kind == InstrKind::Launch && i.op == OpKind::Pack) {
        std::vector<int64_t> at = i.attrs.list("at");
        for (size_t k = 0; k < at.size(); ++k)
          copies.push_back({t.reads[k].begin,
                            t.writes[0].begin + at[k] * byteSize(whole(s, p, i.outs[0]).type.dtype),
                            t.reads[k].end - t.reads[k].begin});
      }
      if (isTransfer(i.kind))
        for (int64_t r = 0; r < world; ++r)
          copies.push_back(
              {t.reads[0].on(r).begin, t.writes[0].on(r).begin, t.reads[0].end - t.reads[0].begin});
      if (i.kind == InstrKind::AllGather || i.kind == InstrKind::ReduceScatter) {
        bool gather = i.kind == InstrKind::AllGather;
        const ByteRange &in = t.reads[0], &out = t.writes[0];
        int64_t slice = gather ? in.end - in.begin : (in.end - in.begin) / world;
        for (int64_t r = 0; r < world; ++r) {
          int64_t whole = gather ? out.begin : in.begin,
                  part = gather ? in.on(r).begin : out.on(r).begin;
          if (!gather)
            bounds.push_back(std::min(whole + r * slice, endOf(whole)));
          else
            copies.push_back({part, whole + r * slice, slice});
        }
      }
    }
    for (PlaceRef r : p.returns)
      add(rangeOf(s, p, r));
  }
  for (int round = 0; round < 3 + 2 * (s.arenas.size() > 1);
       ++round) { // through host memory and back
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    std::vector<int64_t> more;
    for (auto [from, to, bytes] : copies)
      for (auto [a, b] : {std::pair(from, to), std::pair(to, from)})
        for (auto it = std::lower_bound(bounds.begin(), bounds.end(), a);
             it != bounds.end() && *it <= a + bytes; ++it)
          if (b + *it - a <= endOf(b))
            more.push_back(b + *it - a);
    bounds.insert(bounds.end(), more.begin(), more.end());
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
}

Cells Code::cells(const ByteRange &r, int64_t rank) const {
  ByteRange at = r.on(rank);
  return {cellAt(at.begin), cellAt(at.end), at.begin, 0};
}

/// `ordinal`: ordinals(p); `running`: the same of what update leaves running.
Step Code::translate(const SchedProgram &p, const Instr &i,
                     const std::vector<std::pair<int, int>> &ordinal,
                     const std::vector<std::pair<int, int>> &running) const {
  Step step;
  step.instr = &i;
  std::string text(i.kind == InstrKind::Launch ? info(i.op).text : ds::text(i.kind));
  for (const auto &[name, value] : i.attrs)
    text += " " + name + "=" + attrText(value);
  step.key = hashText(text);
  Touched t = touchedBy(s, p, i);
  auto all = [&](PlaceRef r) {
    std::vector<Cells> list;
    const Buffer &b = whole(s, p, r);
    bool owned = b.kind == BufferKind::Temp || b.kind == BufferKind::Input;
    for (int64_t rank = 0; rank < world; ++rank) {
      list.push_back(cells(rangeOf(s, p, r), rank));
      list.back().owner = owned ? hashText(b.name) : 0;
    }
    return list;
  };
  for (PlaceRef r : i.ins)
    step.ins.push_back(all(r));
  for (PlaceRef r : i.outs)
    step.outs.push_back(all(r));
  step.work = cells(t.work, 0);
  if (i.kind == InstrKind::AllGather)
    step.slice = t.reads[0].end - t.reads[0].begin;
  if (i.kind == InstrKind::ReduceScatter)
    step.slice = (t.reads[0].end - t.reads[0].begin) / world;
  if (i.kind == InstrKind::Launch && i.op == OpKind::Pack) {
    const Buffer &b = whole(s, p, i.outs[0]);
    step.packInto = hashText(b.name);
    for (int64_t at : i.attrs.list("at"))
      step.packAt.push_back(at * byteSize(b.type.dtype));
  }
  for (int w : i.waits) {
    auto [stream, n] = ordinal[static_cast<size_t>(w)];
    int &far = step.waits[static_cast<size_t>(stream)];
    far = std::max(far, n);
  }
  for (int w : i.carriedWaits)
    if (static_cast<size_t>(w) < running.size()) {
      auto [stream, n] = running[static_cast<size_t>(w)];
      int &far = step.carriedWaits[static_cast<size_t>(stream)];
      far = std::max(far, n);
    }
  return step;
}

/// The stream of each, and its number there, from 1.
static std::vector<std::pair<int, int>> ordinals(const SchedProgram &p) {
  std::vector<std::pair<int, int>> out;
  std::array<int, kStreams> count{};
  for (const Instr &i : p.instrs)
    out.emplace_back(static_cast<int>(i.stream), ++count[static_cast<size_t>(i.stream)]);
  return out;
}

void Code::build() {
  std::vector<std::pair<int, int>> running;
  for (const SchedProgram &p : s.programs)
    if (p.name == "update")
      for (const Instr *i : leftRunning(p))
        running.push_back(ordinals(p)[static_cast<size_t>(i - p.instrs.data())]);
  for (const SchedProgram &p : s.programs) {
    Program &out = programs.emplace_back();
    out.p = &p;
    out.runsOn = runsOn(p);
    std::vector<std::pair<int, int>> ordinal = ordinals(p);
    for (const Instr &i : p.instrs)
      out.streams[static_cast<size_t>(i.stream)].push_back(translate(p, i, ordinal, running));
    for (PlaceRef r : p.returns) {
      out.returns.emplace_back();
      for (int64_t rank = 0; rank < world; ++rank)
        out.returns.back().push_back(cells(rangeOf(s, p, r), rank));
    }
  }
  auto find = [&](std::string_view name) {
    for (size_t k = 0; k < programs.size(); ++k)
      if (programs[k].p->name == name)
        sequence.push_back(k);
  };
  find("start");
  startLength = sequence.size();
  for (int window = 0; window < 2; ++window) {
    if (s.step.gradAccum == 1)
      find("micro.only");
    for (int64_t m = 0; s.step.gradAccum > 1 && m < s.step.gradAccum; ++m)
      find(m == 0 ? "micro.first" : m + 1 == s.step.gradAccum ? "micro.last" : "micro.mid");
    find("update");
  }
  windowLength = (sequence.size() - startLength) / 2;
}

} // namespace ds::oracle
