// SPDX-License-Identifier: Apache-2.0
//
// The schedule verifier's frame: which rules run, and how a violation is told. The rules:
//   S1  bounds, alignment, counts   S2  races           S3  lifetimes, contents   S4  order, streams
//   S5  collectives                 S6  accumulators    S7  spaces                S8  buckets, inputs
//   S9  programs                    S10 aliasing inside one instruction           S11 types
//   S12 what runs on from one program into the next                               S13 transfers
#include "ir/ScheduleVerify.h"

#include "ir/ScheduleNames.h"

#include <algorithm>

namespace ds {

void Findings::add(std::string_view rule, int line, std::string text,
                   std::vector<std::string> notes) {
  if (++count > kMaxShown)
    return;
  Status one = Status::error(std::move(text) + " [" + std::string(rule) + "]");
  for (std::string &n : notes)
    one = std::move(one).note(std::move(n));
  std::string where = s.path.empty() ? "schedule " + s.name : s.path;
  st.merge(std::move(one).at(line > 0 ? where + ":" + std::to_string(line) + ":1" : where));
}

std::string originText(const OriginInfo &o) {
  std::string text;
  if (!o.node.empty())
    text += " from " + o.node;
  if (!o.module.empty())
    text += " in " + o.module;
  if (!o.pass.empty())
    text += " by " + o.pass;
  return text;
}

void Findings::add(std::string_view rule, const SchedProgram &p, const Instr &i, std::string text,
                   std::vector<std::string> notes) {
  if (i.origin >= 0 && i.origin < static_cast<int>(s.origins.size()))
    notes.push_back(nameText(i.label) + " comes" + originText(s.origins[i.origin]));
  add(rule, i.line,
      p.name + ": " + nameText(i.label) + " (" + std::string(ds::text(i.stream)) + ") " + text,
      std::move(notes));
}

Status Findings::take() {
  if (count > kMaxShown)
    st = std::move(st).note("and " + std::to_string(count - kMaxShown) + " more");
  return std::move(st);
}

Access accessOf(const Schedule &s, const SchedProgram &p, PlaceRef r, bool write) {
  PlaceInfo i = resolve(s, p, r);
  int64_t bytes = i.rankStride ? i.rankStride * s.world() : i.bytes;
  return {i.buffer->type.space, i.begin, i.begin + bytes, i.bufferIndex, i.name, write};
}

void accesses(const Schedule &s, const SchedProgram &p, const Instr &i, std::vector<Access> &list) {
  list.clear();
  auto add = [&](const Access &a) {
    if (a.begin < a.end)
      list.push_back(a);
  };
  for (PlaceRef r : i.ins)
    add(accessOf(s, p, r, false));
  for (PlaceRef r : i.outs)
    add(accessOf(s, p, r, true));
  if (i.work >= 0) {
    const Buffer &b = bufferAt(s, p, i.work);
    add({b.type.space, b.offset, b.offset + b.bytes, i.work, &b.name, true});
  }
}

bool overlap(const Access &a, const Access &b) {
  return a.space == b.space && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

std::string bytesText(const Access &a) {
  return std::string(text(a.space)) + " bytes [" + std::to_string(a.begin) + "," +
         std::to_string(a.end) + ")";
}

Status verifySchedule(const Schedule &s) {
  Findings f(s);
  verifyPlaces(s, f);
  verifyOrder(s, f);
  if (!f.none()) // the other rules trust indices, sizes and the order of instructions
    return f.take();
  int before = f.size();
  verifyCarry(s, f);
  bool carryIsSane =
      f.size() == before; // every program's `carried` is what the one before leaves running
  for (const SchedProgram &p : s.programs) {
    verifyRaces(s, p, carryIsSane && !p.carried.empty() ? s.program("update") : nullptr, f);
    verifyAliases(s, p, f);
    verifyCollectives(s, p, f);
    verifyTransfers(s, p, f);
  }
  verifyWindow(s, f);
  verifyBindings(s, f);
  verifyTypes(s, f);
  return f.take();
}

} // namespace ds
