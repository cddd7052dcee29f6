// SPDX-License-Identifier: Apache-2.0
//
// plan-memory: offsets for every buffer (D8). One persistent section with the same offsets in every program, then
// each program's temporaries. Lifetimes are intervals of the instruction list, ended at the first compute
// instruction that is ordered after the last access; so reuse of bytes never makes compute wait, and only
// transfers and collectives get waits for it.
#include "passes/Emit.h"

#include <algorithm>
#include <array>

namespace ds {

namespace {

constexpr int64_t kAlign = 256;
int64_t roundUp(int64_t v) { return (v + kAlign - 1) / kAlign * kAlign; }

// Places all buffers apart from each other, so that conflicts are those of the program alone.
void spreadOut(SchedProgram &p, int64_t start) {
  for (Buffer &b : p.own) {
    b.offset = start;
    start += std::max(roundUp(b.bytes), kAlign);
  }
}

// Whether compute waits for anything that the plan before the layout did not already order before it.
bool computeWaitsForReuse(const SchedProgram &p,
                          const std::vector<std::array<int, kStreams>> &before) {
  for (size_t k = 0; k < p.instrs.size(); ++k)
    for (int w : p.instrs[k].waits)
      if (p.instrs[k].stream == Stream::Compute &&
          before[k][static_cast<int>(p.instrs[w].stream)] < w)
        return true;
  return false;
}

} // namespace

Status planMemory(Schedule &s, const PlanConfig &c) {
  ArenaInfo arena;
  arena.align = kAlign;
  for (Buffer &b : s.persistent) {
    b.offset = arena.persistentBytes;
    arena.persistentBytes += roundUp(b.bytes);
  }
  int64_t temp = 0, load = 0;
  for (SchedProgram &p : s.programs) {
    spreadOut(p, arena.persistentBytes);
    auto before = computeWaits(s, p, c.overlap);
    computeIntervals(s, p, before);

    std::vector<PackItem> items;
    for (Buffer &b : p.own)
      if (b.last >= 0)
        items.push_back({b.first, b.last, b.bytes});
    temp = std::max(temp, packIntervals(items, kAlign));
    load = std::max(load, maxLoad(items, kAlign));
    size_t next = 0;
    for (Buffer &b : p.own)
      if (b.last >= 0)
        b.offset = arena.persistentBytes + items[next++].offset;

    // Throttles shaped lifetimes; now only bytes that are really reused need their waits.
    for (Instr &i : p.instrs)
      i.throttle = -1;
    computeWaits(s, p, c.overlap);
    if (computeWaitsForReuse(p, before))
      return Status::internal("plan-memory: reuse of bytes made compute wait in " + p.name);
  }
  arena.bytes = arena.persistentBytes + temp;
  arena.load = arena.persistentBytes + load;
  s.arenas = {arena};
  return {};
}

} // namespace ds
