// SPDX-License-Identifier: Apache-2.0
//
// S12: what may run on from one program into the next. Carried instructions are the last ones of their streams in
// `update`, neither compute nor feed, and touch persistent buffers and temporaries in host memory only; the program that follows names all of them, and S2 orders
// its accesses with theirs, also where its own temporaries take the same bytes. A carry buffer holds a gathered bucket: `start` gathers it once, and `update`
// again after every change, so that no program ever reads old weights.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

#include <algorithm>
#include <array>

namespace ds {

namespace {

class Carry {
public:
  Carry(const Schedule &s, Findings &f) : s(s), f(f) {}
  void run();

private:
  void suffix(const SchedProgram &p);
  void places(const SchedProgram &p, const Instr &i);
  void handover(const SchedProgram &p, const SchedProgram *update, bool follows);
  void ownStream(const SchedProgram &p, const SchedProgram *update);
  void start(const SchedProgram &p);
  void copies(int buffer);
  int gatherInto(const SchedProgram &p, int buffer);

  const Schedule &s;
  Findings &f;
};

/// A carried instruction's bytes must outlive its program. In host memory compute does not wait for bytes that are reused.
void Carry::places(const SchedProgram &p, const Instr &i) {
  auto outlives = [&](int buffer) {
    const Buffer &b = bufferAt(s, p, buffer);
    return isPersistent(b.kind) || b.type.space == Space::Host;
  };
  for (const auto *list : {&i.ins, &i.outs})
    for (PlaceRef r : *list)
      if (PlaceInfo at = resolve(s, p, r); !outlives(at.bufferIndex))
        f.add("S12", p, i,
              "is carried, but " + nameText(*at.name) + " ends with the program; only persistent " +
                  "buffers and host memory outlive it");
  if (i.work >= 0 && !outlives(i.work))
    f.add("S12", p, i,
          "is carried, but its workspace " + nameText(bufferAt(s, p, i.work).name) +
              " ends with the program");
}

void Carry::suffix(const SchedProgram &p) {
  std::array<const Instr *, kStreams> last = {}; // carried, by stream
  for (const Instr &i : p.instrs) {
    const Instr *&carried = last[static_cast<size_t>(i.stream)];
    if (!i.carry && carried)
      f.add("S12", p, i,
            "comes after " + nameText(carried->label) + ", which is carried; the program's end " +
                "would have to wait for both");
    if (!i.carry)
      continue;
    carried = &i;
    if (i.stream == Stream::Compute || i.stream == Stream::Feed || p.name != "update")
      f.add("S12", p, i,
            "is carried; only collectives, transfers and host launches of update may be");
    places(p, i);
    for (PlaceRef r : p.returns)
      for (PlaceRef o : i.outs)
        if (Access a = accessOf(s, p, r, false); overlap(a, accessOf(s, p, o, true)))
          f.add("S12", p, i,
                "is carried, but writes " + nameText(*a.name) + ", which " + nameText(p.name) +
                    " returns when it ends");
  }
}

/// Waiting for what is on the same stream means something else than it says.
void Carry::ownStream(const SchedProgram &p, const SchedProgram *update) {
  std::vector<int> carried = p.carried.empty() ? std::vector<int>() : carriedOut(*update);
  for (const Instr &i : p.instrs)
    for (int c : i.carriedWaits)
      if (update->instrs[carried[c]].stream == i.stream)
        f.add("S4", p, i,
              "waits for " + nameText(p.carried[c]) +
                  " on its own stream, which is in order anyway");
}

/// `carried` of a program names exactly what the one before it leaves running.
void Carry::handover(const SchedProgram &p, const SchedProgram *update, bool follows) {
  std::vector<std::string> want;
  if (update && follows)
    for (int k : carriedOut(*update))
      want.push_back(update->instrs[k].label);
  if (p.carried == want) {
    ownStream(p, update);
    return;
  }
  auto list = [](const std::vector<std::string> &labels) {
    std::string text;
    for (const std::string &l : labels)
      text += (text.empty() ? "" : ", ") + nameText(l);
    return text.empty() ? std::string("nothing") : text;
  };
  f.add("S12", 0,
        p.name + ": update leaves " + list(want) + " running for it, but it names " +
            list(p.carried));
}

/// `start` fills carry buffers and does nothing else: it runs once, outside of any window.
void Carry::start(const SchedProgram &p) {
  for (const Instr &i : p.instrs)
    if (i.kind != InstrKind::AllGather || i.outs.size() != 1 ||
        resolve(s, p, i.outs[0]).buffer->kind != BufferKind::Carry)
      f.add("S12", p, i, "stands in start, which only gathers into carry buffers");
  if (!p.returns.empty())
    f.add("S12", 0, "start returns values, but nothing has been computed yet");
}

/// Index of the one instruction of p that writes the buffer: a gather of a whole bucket. -1: found wrong.
int Carry::gatherInto(const SchedProgram &p, int buffer) {
  const Buffer &b = s.persistent[buffer];
  int found = -1;
  for (size_t k = 0; k < p.instrs.size(); ++k)
    for (PlaceRef r : p.instrs[k].outs) {
      PlaceInfo at = resolve(s, p, r);
      if (at.bufferIndex != buffer)
        continue;
      const Instr &i = p.instrs[k];
      bool whole = i.kind == InstrKind::AllGather && !r.isView && !i.ins[0].isView &&
                   resolve(s, p, i.ins[0]).buffer->kind == BufferKind::Param;
      if (p.name != "start" && p.name != "update")
        f.add("S12", p, i,
              "writes the carry buffer " + nameText(b.name) +
                  ", which only start and update may do");
      else if (!whole || found >= 0)
        f.add("S12", p, i,
              "writes the carry buffer " + nameText(b.name) + ", but " +
                  (whole ? nameText(p.instrs[found].label) + " has gathered it already"
                         : "is not the gather of a whole bucket"));
      else
        found = static_cast<int>(k);
    }
  return found;
}

void Carry::copies(int buffer) {
  const Buffer &b = s.persistent[buffer];
  int source = -1; // the bucket
  for (const SchedProgram &p : s.programs) {
    int g = gatherInto(p, buffer);
    if (p.name != "start" && p.name != "update")
      continue;
    if (g < 0) {
      f.add("S12", b.line, p.name + ": nothing gathers the carry buffer " + nameText(b.name));
      continue;
    }
    int bucket = p.instrs[g].ins[0].index;
    if (source >= 0 && source != bucket)
      f.add("S12", p, p.instrs[g],
            "gathers another bucket into " + nameText(b.name) + " than start does");
    source = bucket;
    for (size_t k = static_cast<size_t>(g); k < p.instrs.size(); ++k)
      for (PlaceRef r : p.instrs[k].outs)
        if (resolve(s, p, r).bufferIndex == bucket)
          f.add("S12", p, p.instrs[k],
                "changes " + nameText(s.persistent[bucket].name) + " after " +
                    nameText(p.instrs[g].label) + " has gathered it into " + nameText(b.name));
  }
  if (!s.program("start"))
    f.add("S12", b.line,
          nameText(b.name) + " is a carry buffer, but there is no program start to fill it");
}

void Carry::run() {
  const SchedProgram *update = s.program("update");
  for (size_t k = 0; k < s.programs.size(); ++k) {
    const SchedProgram &p = s.programs[k];
    suffix(p);
    bool first = p.name == "micro.only" || p.name == "micro.first";
    handover(p, update, first);
    if (p.name == "start")
      start(p);
  }
  for (size_t b = 0; b < s.persistent.size(); ++b)
    if (s.persistent[b].kind == BufferKind::Carry)
      copies(static_cast<int>(b));
}

} // namespace

void verifyCarry(const Schedule &s, Findings &f) { Carry(s, f).run(); }

} // namespace ds
