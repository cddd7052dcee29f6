// SPDX-License-Identifier: Apache-2.0
//
// S2: any two instructions that touch a common byte, one of them writing, are ordered by streams and waits.
// S3: instructions touch a temporary only inside its interval, and read only what was written through the
// same buffer; what is read at the program's end is still there. A launch that overwrites an operand through another
// view than it reads gives the bytes a new name: the old ones find nothing there any more.
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

constexpr int kFirstName = -1; // of bytes that were not overwritten under another name
constexpr int kKeepName = -2;  // what is written goes on under the name that the bytes have
constexpr int kUnnamed = -3;   // a place that was not used yet

/// An instruction's touch of a segment. `buffer` is in the numbering of the instruction's program.
struct Touch {
  int instr = -1; // -1: none
  int buffer = -1;
};

struct SegmentState {
  int64_t end = 0;
  Touch write;
  std::array<Touch, kStreams> reads; // after write
  int name = kFirstName;             // the launch that overwrote an operand here
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
    buffers = static_cast<int>(s.persistent.size() + p.own.size());
    names.assign(static_cast<size_t>(buffers) + p.views.size(), kUnnamed);
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
  int placeOf(PlaceRef r) const { return r.isView ? buffers + r.index : r.index; }
  int nameOf(int j, size_t out, const Access &a) const;
  void instruction(int j);
  void access(int j, const Access &a, int place, int name = kFirstName);
  void interval(int j, const Access &a);
  void conflict(int j, const Access &a, const Touch &other, bool otherWrites, int64_t begin,
                int64_t end);
  void contents(int j, const Access &a, const Touch &write, int64_t begin, int64_t end);
  void renamed(int j, const Access &a, int place, const SegmentState &state, int64_t begin);

  const Schedule &s;
  const SchedProgram &p;
  Findings &f;
  std::vector<Node> nodes;  // those of the program before, then p's
  int carried = 0;          // how many the program before has
  std::vector<int> running; // of these, in order
  int buffers = 0;
  std::vector<int> names; // by place, buffers first: the name it was first used under
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

/// A name belongs to what was there when it was first used.
void Races::renamed(int j, const Access &a, int place, const SegmentState &state, int64_t begin) {
  if (place < 0 || isPersistent(bufferAt(s, p, a.buffer).kind))
    return;
  int &name = names[static_cast<size_t>(place)];
  if (name == kUnnamed)
    name = state.name;
  if (name == state.name || state.write.instr < 0 ||
      !toldContents.emplace(state.write.instr, j).second)
    return;
  bool real = j < static_cast<int>(nodes.size());
  std::string what = (real ? "reads " : p.name + ": returns ") + nameText(*a.name) + ", " +
                     rangeText(a.space, begin, state.end) + ", which " +
                     nameText(at(state.write.instr).label) + " has overwritten under another name";
  if (real)
    f.add("S3", p, at(j), what);
  else
    f.add("S3", bufferAt(s, p, a.buffer).line, what);
}

/// What the bytes of destination `out` are called once instruction j has written them.
int Races::nameOf(int j, size_t out, const Access &a) const {
  const Instr &i = at(j);
  if (i.kind != InstrKind::Launch || i.op == OpKind::Pack)
    return kFirstName;
  if (tiedOperand(i.op, static_cast<int>(out), static_cast<int>(i.ins.size())) >= 0)
    return kKeepName;
  for (PlaceRef r : i.ins)
    if (Access in = accessOf(s, p, r, false);
        in.buffer == a.buffer && in.begin == a.begin && in.end == a.end)
      return r == i.outs[out] ? kKeepName : j;
  return kFirstName;
}

void Races::instruction(int j) {
  const Instr &i = at(j);
  auto touch = [&](const Access &a, int place, int name = kFirstName) {
    if (a.begin >= a.end)
      return;
    interval(j - carried, a);
    access(j, a, place, name);
  };
  for (PlaceRef r : i.ins)
    touch(accessOf(s, p, r, false), placeOf(r));
  for (size_t o = 0; o < i.outs.size(); ++o) {
    Access a = accessOf(s, p, i.outs[o], true);
    touch(a, placeOf(i.outs[o]), nameOf(j, o, a));
  }
  if (i.work >= 0)
    touch(accessOf(s, p, {false, i.work}, true), -1);
}

void Races::access(int j, const Access &a, int place, int name) {
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
    else {
      contents(j, a, state.write, seg->first, state.end);
      renamed(j, a, place, state, seg->first);
    }
    if (!a.write && real)
      state.reads[static_cast<int>(at(j).stream)] = {j, a.buffer};
  }
  if (!a.write)
    return;
  SegmentState written;
  written.end = a.end;
  written.write = {j, a.buffer};
  written.name = name == kKeepName ? it->second.name : name;
  if (place >= 0 && names[static_cast<size_t>(place)] == kUnnamed)
    names[static_cast<size_t>(place)] = written.name;
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
  for (int j = 0; j < carried; ++j) { // of another program, whose places have other numbers
    if (!at(j).carry)
      continue;
    accesses(s, *nodes[j].program, at(j), list);
    for (const Access &a : list)
      access(j, a, -1);
  }
  for (int j = carried; j < n; ++j)
    instruction(j);
  for (PlaceRef r : p.returns)
    if (Access a = accessOf(s, p, r, false); a.begin < a.end)
      access(n, a, placeOf(r));
}

} // namespace

void verifyRaces(const Schedule &s, const SchedProgram &p, const SchedProgram *before,
                 Findings &f) {
  Races(s, p, before, f).run();
}

} // namespace ds
