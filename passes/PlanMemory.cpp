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
  bool reserves = false;      // bytes of what runs on, which are below all other temporaries
  int64_t kept = 0, keptLoad = 0;
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

// Places all buffers apart from each other and from those of programs before, so that conflicts are those of the program
// alone.
void spreadOut(SchedProgram &p, const Plans &plans, std::array<int64_t, 3> &next) {
  for (Buffer &b : p.own) {
    const SpacePlan &plan = plans[static_cast<size_t>(b.type.space)];
    int64_t &at = next[static_cast<size_t>(b.type.space)];
    b.offset = at;
    at += std::max(plan.roundUp(b.bytes), plan.arena.align);
  }
}

/// The buffers of one space, as what packs them takes them.
struct Items {
  std::vector<PackItem> items;
  std::vector<Buffer *> buffers;

  int64_t load(const SpacePlan &plan) const { return maxLoad(items, plan.arena.align); }
  int64_t pack(const SpacePlan &plan, int64_t base) {
    int64_t bytes = packIntervals(items, plan.arena.align);
    for (size_t k = 0; k < buffers.size(); ++k)
      buffers[k]->offset = base + items[k].offset;
    return bytes;
  }
};

// Those of p, but for what runs on; or only that.
Items itemsOf(const Schedule &s, SchedProgram &p, Space space, bool runsOn) {
  std::vector<bool> touched(p.own.size());
  auto base = static_cast<int>(s.persistent.size());
  auto touch = [&](int buffer) {
    if (buffer >= base)
      touched[buffer - base] = true;
  };
  for (const Instr &i : p.instrs) {
    for (const auto *list : {&i.ins, &i.outs})
      for (PlaceRef r : i.carry ? *list : std::vector<PlaceRef>())
        touch(r.isView ? p.views[r.index].buffer : r.index);
    if (i.carry)
      touch(i.work);
  }
  Items out;
  for (size_t k = 0; k < p.own.size(); ++k)
    if (Buffer &b = p.own[k]; b.type.space == space && b.last >= 0 && touched[k] == runsOn) {
      out.items.push_back({b.first, b.last, b.bytes});
      out.buffers.push_back(&b);
    }
  return out;
}

// What runs on has bytes of its own if the arena grows by no more than 1 % (`--carry on`: always), within its limit. Else what
// reuses them in the next program waits.
void reserve(Schedule &s, SpacePlan &plan, const PlanConfig &c) {
  int64_t runsOn = 0, others = 0, together = 0;
  for (SchedProgram &p : s.programs) {
    Items on = itemsOf(s, p, plan.arena.space, true), off = itemsOf(s, p, plan.arena.space, false);
    runsOn = std::max(runsOn, on.load(plan));
    others = std::max(others, off.load(plan));
    off.items.insert(off.items.end(), on.items.begin(), on.items.end());
    together = std::max(together, off.load(plan));
  }
  int64_t least = plan.arena.persistentBytes + together,
          apart = plan.arena.persistentBytes + runsOn + others;
  bool fits = c.hostMemory < 0 || apart <= c.hostMemory;
  plan.reserves = runsOn > 0 && fits && (c.carry == "on" || apart <= least + least / 100);
}

// Offsets of one program's buffers in one space.
void pack(const Schedule &s, SchedProgram &p, SpacePlan &plan) {
  Items on = itemsOf(s, p, plan.arena.space, true), off = itemsOf(s, p, plan.arena.space, false);
  if (plan.reserves) {
    plan.kept += plan.roundUp(on.pack(plan, plan.arena.persistentBytes)); // of `update`, the first
    plan.keptLoad += on.load(plan);
  } else {
    off.items.insert(off.items.end(), on.items.begin(), on.items.end());
    off.buffers.insert(off.buffers.end(), on.buffers.begin(), on.buffers.end());
  }
  plan.temp = std::max(plan.temp, off.pack(plan, plan.arena.persistentBytes + plan.kept));
  plan.load = std::max(plan.load, off.load(plan));
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

// `update` first: what it leaves running has bytes in the program behind it.
std::vector<SchedProgram *> inOrder(Schedule &s) {
  std::vector<SchedProgram *> order;
  for (SchedProgram &p : s.programs)
    order.push_back(&p);
  std::stable_partition(order.begin(), order.end(),
                        [](const SchedProgram *p) { return p->name == "update"; });
  return order;
}

} // namespace

Status planMemory(Schedule &s, const PlanConfig &c) {
  Plans plans = spacesOf(s);
  for (Buffer &b : s.persistent) {
    SpacePlan &plan = of(plans, b);
    b.offset = plan.arena.persistentBytes;
    plan.arena.persistentBytes += plan.roundUp(b.bytes);
  }
  std::array<int64_t, 3> next;
  for (size_t k = 0; k < plans.size(); ++k)
    next[k] = plans[k].arena.persistentBytes;
  std::vector<SchedProgram *> programs = inOrder(s);
  std::vector<std::vector<std::array<int, kStreams>>> before; // by program
  for (SchedProgram *p : programs) {
    spreadOut(*p, plans, next);
    before.push_back(computeWaits(s, *p, c.overlap));
    computeIntervals(s, *p, before.back());
  }
  for (SpacePlan &plan : plans)
    reserve(s, plan, c);
  for (size_t k = 0; k < programs.size(); ++k) {
    SchedProgram &p = *programs[k];
    for (SpacePlan &plan : plans)
      pack(s, p, plan);

    // Throttles shaped lifetimes; now only bytes that are really reused need their waits.
    for (Instr &i : p.instrs)
      i.throttles.clear();
    computeWaits(s, p, c.overlap);
    if (computeWaitsForReuse(p, before[k]))
      return Status::internal("plan-memory: reuse of bytes made compute wait in " + p.name);
  }
  s.arenas.clear();
  for (SpacePlan &plan : plans) {
    plan.arena.bytes = plan.arena.persistentBytes + plan.kept + plan.temp;
    plan.arena.load = plan.arena.persistentBytes + plan.keptLoad + plan.load;
    if (plan.used)
      s.arenas.push_back(plan.arena);
  }
  return {};
}

} // namespace ds
