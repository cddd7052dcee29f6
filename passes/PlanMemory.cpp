// SPDX-License-Identifier: Apache-2.0
//
// plan-memory: offsets for every buffer (D8), space by space. One persistent section with the same offsets in every program, then
// each program's temporaries. Lifetimes are intervals of the instruction list, ended at the first compute
// instruction that is ordered after the last access; so reuse of bytes never makes compute wait, and only
// transfers and collectives get waits for it.
#include "passes/Emit.h"

#include <algorithm>
#include <array>

namespace ds {

namespace {

constexpr int64_t kAlign = 256;

/// One space's arena while it is planned.
struct SpacePlan {
  ArenaInfo arena;
  int64_t temp = 0, load = 0; // of the program that needs most
  bool used = false;

  int64_t roundUp(int64_t v) const { return (v + arena.align - 1) / arena.align * arena.align; }
};
using Plans = std::array<SpacePlan, 3>; // by Space

SpacePlan &of(Plans &plans, const Buffer &b) { return plans[static_cast<size_t>(b.type.space)]; }

template <typename Fn> void forEachBuffer(Schedule &s, Fn fn) {
  for (Buffer &b : s.persistent)
    fn(b);
  for (SchedProgram &p : s.programs)
    for (Buffer &b : p.own)
      fn(b);
}

// Transfers to and from nvme move whole blocks, so all of host memory is cut in blocks where there are any.
Plans spacesOf(Schedule &s) {
  Plans plans;
  forEachBuffer(s, [&](Buffer &b) { of(plans, b).used = true; });
  plans[static_cast<size_t>(Space::Device)].used = true;
  bool blocks = plans[static_cast<size_t>(Space::Nvme)].used;
  for (size_t k = 0; k < plans.size(); ++k) {
    plans[k].arena.space = static_cast<Space>(k);
    plans[k].arena.align = blocks && plans[k].arena.space != Space::Device ? kNvmeBlock : kAlign;
  }
  if (blocks)
    forEachBuffer(s, [&](Buffer &b) {
      if (b.type.space != Space::Device)
        b.bytes = of(plans, b).roundUp(b.type.bytes());
    });
  return plans;
}

// Places all buffers apart from each other, so that conflicts are those of the program alone.
void spreadOut(SchedProgram &p, Plans &plans) {
  std::array<int64_t, 3> next;
  for (size_t k = 0; k < plans.size(); ++k)
    next[k] = plans[k].arena.persistentBytes;
  for (Buffer &b : p.own) {
    const SpacePlan &plan = of(plans, b);
    int64_t &at = next[static_cast<size_t>(b.type.space)];
    b.offset = at;
    at += std::max(plan.roundUp(b.bytes), plan.arena.align);
  }
}

// Offsets of one program's buffers in one space.
void pack(SchedProgram &p, SpacePlan &plan) {
  std::vector<PackItem> items;
  std::vector<Buffer *> buffers;
  for (Buffer &b : p.own)
    if (b.type.space == plan.arena.space && b.last >= 0) {
      items.push_back({b.first, b.last, b.bytes});
      buffers.push_back(&b);
    }
  plan.temp = std::max(plan.temp, packIntervals(items, plan.arena.align));
  plan.load = std::max(plan.load, maxLoad(items, plan.arena.align));
  for (size_t k = 0; k < buffers.size(); ++k)
    buffers[k]->offset = plan.arena.persistentBytes + items[k].offset;
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
  Plans plans = spacesOf(s);
  for (Buffer &b : s.persistent) {
    SpacePlan &plan = of(plans, b);
    b.offset = plan.arena.persistentBytes;
    plan.arena.persistentBytes += plan.roundUp(b.bytes);
  }
  for (SchedProgram &p : s.programs) {
    spreadOut(p, plans);
    auto before = computeWaits(s, p, c.overlap);
    computeIntervals(s, p, before);
    for (SpacePlan &plan : plans)
      pack(p, plan);

    // Throttles shaped lifetimes; now only bytes that are really reused need their waits.
    for (Instr &i : p.instrs)
      i.throttles.clear();
    computeWaits(s, p, c.overlap);
    if (computeWaitsForReuse(p, before))
      return Status::internal("plan-memory: reuse of bytes made compute wait in " + p.name);
  }
  s.arenas.clear();
  for (SpacePlan &plan : plans) {
    plan.arena.bytes = plan.arena.persistentBytes + plan.temp;
    plan.arena.load = plan.arena.persistentBytes + plan.load;
    if (plan.used)
      s.arenas.push_back(plan.arena);
  }
  return {};
}

} // namespace ds
