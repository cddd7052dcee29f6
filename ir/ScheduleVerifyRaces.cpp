// SPDX-License-Identifier: Apache-2.0
//
// S2: any two instructions that touch a common byte, one of them writing, are ordered by streams and waits.
// S3: instructions touch a temporary only inside its interval, and read only what was written through the
// same buffer; what is read at the program's end is still there.
//
// One sweep in list order, as in race detectors (after Flanagan and Freund, "FastTrack", 2009): bytes are cut
// into segments that remember their last write and, since then, the last read on each stream. That is
// enough: whatever came before was found to be ordered with these when they happened, and order is
// transitive. "Happens before" is read off vector clocks over the streams.
//
// The program before stands in front of the list, on its streams: what it has left running touches bytes, all else has ended
// and only orders.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

#include <array>
#include <map>
#include <set>

namespace ds {

namespace {

/// An instruction's touch of a segment. `buffer` is in the numbering of the instruction's program.
struct Touch {
  int instr = -1; // -1: none
  int buffer = -1;
};

struct SegmentState {
  int64_t end = 0;
  Touch write;
  std::array<Touch, kStreams> reads; // after write
};

using Segments = std::map<int64_t, SegmentState>; // begin -> state; covers the whole arena

class Races {
public:
  Races(const Schedule &s, const SchedProgram &p, const SchedProgram *previous, Findings &f)
      : s(s), p(p), f(f) {
    if (previous)
      for (const Instr &i : previous->instrs)
        nodes.push_back({previous, &i});
    carried = static_cast<int>(nodes.size());
    if (previous)
      running = carriedOut(*previous);
    for (const Instr &i : p.instrs)
      nodes.push_back({&p, &i});
  }
  void run();

private:
  struct Node {
    const SchedProgram *program;
    const Instr *instr;
  };
  const Instr &at(int j) const { return *nodes[j].instr; }
  void buildClocks();
  bool before(int i, int j) const { // i < j in list order
    return clocks[j][static_cast<int>(at(i).stream)] >= ordinal[i];
  }
  Segments::iterator cut(Segments &m, int64_t at);
  void access(int j, const Access &a);
  void interval(int j, const Access &a);
  void conflict(int j, const Access &a, const Touch &other, bool otherWrites, int64_t begin,
                int64_t end);
  void contents(int j, const Access &a, const Touch &write, int64_t begin, int64_t end);

  const Schedule &s;
  const SchedProgram &p;
  Findings &f;
  std::vector<Node> nodes;  // those of the program before, then p's
  int carried = 0;          // how many the program before has
  std::vector<int> running; // of these, in order
  std::vector<std::array<int, kStreams>>
      clocks;                     // per instruction: how far each stream is known to be
  std::vector<int> ordinal;       // per instruction: 1, 2, ... in its stream
  std::array<Segments, 3> arenas; // by Space
  std::set<std::pair<int, int>> told, toldContents; // pairs of instructions already reported
};

void Races::buildClocks() {
  std::array<int, kStreams> lastOf;
  lastOf.fill(-1);
  clocks.resize(nodes.size());
  ordinal.resize(nodes.size());
  std::array<int, kStreams> ended{}; // what is known when p begins
  auto joinInto = [&](std::array<int, kStreams> &clock, int i) {
    for (int k = 0; k < kStreams; ++k)
      clock[k] = std::max(clock[k], clocks[i][k]);
  };
  for (size_t j = 0; j < nodes.size(); ++j) {
    auto &clock = clocks[j];
    const Instr &instr = at(static_cast<int>(j));
    bool mine = static_cast<int>(j) >= carried;
    clock = mine ? ended : std::array<int, kStreams>{};
    int stream = static_cast<int>(instr.stream);
    if (lastOf[stream] >= 0)
      joinInto(clock, lastOf[stream]);
    for (int w : instr.waits)
      joinInto(clock, mine ? carried + w : w);
    for (int w : mine ? instr.carriedWaits : std::vector<int>())
      if (w < static_cast<int>(running.size()))
        joinInto(clock, running[w]);
    ordinal[j] = ++clock[stream];
    lastOf[stream] = static_cast<int>(j);
    if (!mine && !instr.carry)
      joinInto(ended, static_cast<int>(j));
  }
}

/// Makes `at` the start of a segment.
Segments::iterator Races::cut(Segments &m, int64_t at) {
  auto it = m.lower_bound(at);
  if (it == m.end() || it->first != at) {
    SegmentState &left = std::prev(it)->second;
    it = m.emplace_hint(it, at, left);
    left.end = at;
  }
  return it;
}

std::string rangeText(Space space, int64_t begin, int64_t end) {
  return bytesText({space, begin, end, 0, nullptr, false});
}

void Races::conflict(int j, const Access &a, const Touch &other, bool otherWrites, int64_t begin,
                     int64_t end) {
  if (j < carried || other.instr < 0 || other.instr == j || before(other.instr, j) ||
      !told.emplace(other.instr, j).second)
    return;
  const Instr &first = at(other.instr), &second = at(j);
  std::vector<std::string> notes;
  if (first.origin >= 0 && first.origin != second.origin)
    notes.push_back(nameText(first.label) + " comes" + originText(s.origins[first.origin]));
  f.add("S2", p, second,
        std::string(a.write ? "writes " : "reads ") + nameText(*a.name) + ", " +
            rangeText(a.space, begin, end) + ", which " + nameText(first.label) + " (" +
            (other.instr < carried ? nodes[other.instr].program->name + "'s, " : "") +
            std::string(text(first.stream)) + ") " + (otherWrites ? "writes" : "reads") + " as " +
            nameText(bufferAt(s, *nodes[other.instr].program, other.buffer).name) +
            ", and nothing orders them; missing: wait " + nameText(first.label),
        std::move(notes));
}

/// What the bytes of a read hold. Only temporaries share bytes, and only inputs must be filled first.
void Races::contents(int j, const Access &a, const Touch &write, int64_t begin, int64_t end) {
  if (j < carried) // its own program's check has seen it
    return;
  const Buffer &b = bufferAt(s, p, a.buffer);
  bool filled = isPersistent(b.kind) && b.kind != BufferKind::Input;
  const SchedProgram &writer = write.instr < 0 ? p : *nodes[write.instr].program;
  if (filled || (&writer == &p && write.buffer == a.buffer))
    return;
  if (!toldContents.emplace(write.instr, j).second)
    return;
  bool real = j < static_cast<int>(nodes.size());
  std::string what = (real ? "reads " : p.name + ": returns ") + nameText(*a.name) + ", " +
                     rangeText(a.space, begin, end);
  if (write.instr < 0)
    what += b.kind == BufferKind::Input ? ", before it is fed" : ", which nothing has written yet";
  else
    what += ", which " + nameText(at(write.instr).label) + " has overwritten as " +
            nameText(bufferAt(s, writer, write.buffer).name);
  if (real)
    f.add("S3", p, at(j), what);
  else
    f.add("S3", b.line, what);
}

void Races::access(int j, const Access &a) {
  Segments &m = arenas[static_cast<int>(a.space)];
  auto last = cut(m, a.end), it = cut(m, a.begin);
  bool real = j < static_cast<int>(nodes.size()); // else a read by the runtime, after everything
  for (auto seg = it; seg != last; ++seg) {
    SegmentState &state = seg->second;
    if (real)
      conflict(j, a, state.write, true, seg->first, state.end);
    if (a.write)
      for (const Touch &read : state.reads)
        conflict(j, a, read, false, seg->first, state.end);
    else
      contents(j, a, state.write, seg->first, state.end);
    if (!a.write && real)
      state.reads[static_cast<int>(at(j).stream)] = {j, a.buffer};
  }
  if (!a.write)
    return;
  SegmentState written;
  written.end = a.end;
  written.write = {j, a.buffer};
  m.erase(std::next(it), last);
  it->second = written;
}

void Races::interval(int j, const Access &a) {
  const Buffer &b = bufferAt(s, p, a.buffer);
  if (isPersistent(b.kind) || (b.first <= j && j <= b.last))
    return;
  f.add("S3", p, p.instrs[j],
        std::string(a.write ? "writes " : "reads ") + nameText(*a.name) +
            " outside of the interval [" + nameText(p.instrs[b.first].label) + ", " +
            nameText(p.instrs[b.last].label) + "] of " + nameText(b.name));
}

void Races::run() {
  buildClocks();
  for (const ArenaInfo &a : s.arenas) {
    Segments &m = arenas[static_cast<int>(a.space)];
    m[0].end = a.bytes;
    m[a.bytes]; // so that cut() always finds a segment; empty
  }
  std::vector<Access> list;
  auto n = static_cast<int>(nodes.size());
  for (int j = 0; j < n; ++j) {
    if (j < carried && !at(j).carry)
      continue;
    accesses(s, *nodes[j].program, at(j), list);
    for (const Access &a : list) {
      if (j >= carried)
        interval(j - carried, a);
      access(j, a);
    }
  }
  for (PlaceRef r : p.returns)
    if (Access a = accessOf(s, p, r, false); a.begin < a.end)
      access(n, a);
}

} // namespace

void verifyRaces(const Schedule &s, const SchedProgram &p, const SchedProgram *before,
                 Findings &f) {
  Races(s, p, before, f).run();
}

} // namespace ds
