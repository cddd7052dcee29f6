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

std::vector<size_t> computeWaitCounts(const SchedProgram &p) {
  std::vector<size_t> counts;
  for (const Instr &i : p.instrs)
    counts.push_back(i.stream == Stream::Compute ? i.waits.size() : 0);
  return counts;
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
    std::vector<size_t> waits = computeWaitCounts(p);

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

    computeWaits(s, p, c.overlap);
    if (computeWaitCounts(p) != waits)
      return Status::internal("plan-memory: reuse of bytes made compute wait in " + p.name);
  }
  arena.bytes = arena.persistentBytes + temp;
  arena.load = arena.persistentBytes + load;
  s.arenas = {arena};
  return {};
}

} // namespace ds
