// SPDX-License-Identifier: Apache-2.0
//
// assign-streams: waits from conflicts over bytes, and lifetimes. Bytes are split at every boundary of every
// access, so that one cell of state per piece is enough: the last write and read on each stream.
#include "passes/Emit.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ds {

namespace {

struct Access {
  int64_t begin, end;
  bool write;
};

using Clock = std::array<int, kStreams>;

// One line of bytes for all spaces.
int64_t baseOf(Space space) { return static_cast<int64_t>(space) << 61; }

// The bytes an instruction touches. An own slice counts as the whole buffer: it differs by rank.
void addAccess(const Schedule &s, const SchedProgram &p, PlaceRef r, bool write,
               std::vector<Access> &out) {
  PlaceInfo i = resolve(s, p, r);
  if (i.bytes == 0)
    return;
  bool own = r.isView && p.views[r.index].own;
  int64_t base = baseOf(i.buffer->type.space);
  if (own)
    out.push_back({base + i.buffer->offset, base + i.buffer->offset + i.buffer->bytes, write});
  else
    out.push_back({base + i.begin, base + i.begin + i.bytes, write});
}

std::vector<Access> accesses(const Schedule &s, const SchedProgram &p, const Instr &i) {
  std::vector<Access> a;
  for (PlaceRef r : i.ins)
    addAccess(s, p, r, false, a);
  for (PlaceRef r : i.outs)
    addAccess(s, p, r, true, a);
  if (i.work >= 0)
    addAccess(s, p, {false, i.work}, true, a);
  return a;
}

struct Cell {
  Clock write, read;
};

// An instruction that the program before has left running; they are numbered -n, ..., -1.
struct Carried {
  std::vector<Access> touched;
  int stream;
  std::vector<int> waits; // for others of them
};

std::vector<Carried> carriedInto(const Schedule &s, const SchedProgram &p) {
  std::vector<Carried> out;
  const SchedProgram *update = p.carried.empty() ? nullptr : s.program("update");
  if (!update)
    return out;
  std::vector<int> list = carriedOut(*update);
  auto n = static_cast<int>(list.size());
  for (int k : list) {
    const Instr &i = update->instrs[k];
    Carried c{accesses(s, *update, i), static_cast<int>(i.stream), {}};
    for (int w : i.waits)
      if (auto at = std::lower_bound(list.begin(), list.end(), w); at != list.end() && *at == w)
        c.waits.push_back(static_cast<int>(at - list.begin()) - n);
    out.push_back(std::move(c));
  }
  return out;
}

} // namespace

std::vector<Clock> computeWaits(const Schedule &s, SchedProgram &p, bool overlap) {
  size_t n = p.instrs.size();
  std::vector<Carried> before = carriedInto(s, p);
  std::vector<std::vector<Access>> touched(n);
  auto carried = static_cast<int>(before.size());
  std::vector<int64_t> cuts;
  auto cut = [&](const std::vector<Access> &list) {
    for (const Access &a : list) {
      cuts.push_back(a.begin);
      cuts.push_back(a.end);
    }
  };
  for (const Carried &c : before)
    cut(c.touched);
  for (size_t k = 0; k < n; ++k) {
    touched[k] = accesses(s, p, p.instrs[k]);
    cut(touched[k]);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Clock none; // nothing of any stream, carried or not
  none.fill(-1 - carried);
  std::vector<Cell> cells(cuts.size(), {none, none});
  auto cellAt = [&](int64_t byte) {
    return std::lower_bound(cuts.begin(), cuts.end(), byte) - cuts.begin();
  };

  auto touch = [&](const std::vector<Access> &list, int stream, int k) {
    for (const Access &a : list)
      for (auto c = cellAt(a.begin), e = cellAt(a.end); c < e; ++c)
        (a.write ? cells[c].write : cells[c].read)[stream] = k;
  };
  std::vector<Clock> clocks(n), carriedClocks(before.size());
  Clock lastOf; // latest instruction so far on each stream
  lastOf.fill(-1);
  Clock drained = none; // by stream: the last one that was carried
  for (int k = 0; k < carried; ++k) {
    touch(before[k].touched, before[k].stream, k - carried);
    Clock &clock = carriedClocks[k];
    clock = none;
    if (int last = drained[before[k].stream]; last > none[0])
      clock = carriedClocks[last + carried];
    for (int w : before[k].waits)
      for (int t = 0; t < kStreams; ++t)
        clock[t] = std::max(clock[t], carriedClocks[w + carried][t]);
    clock[before[k].stream] = drained[before[k].stream] = k - carried;
  }
  auto clockOf = [&](int k) -> const Clock & {
    return k < 0 ? carriedClocks[k + carried] : clocks[k];
  };
  for (size_t k = 0; k < n; ++k) {
    Instr &instr = p.instrs[k];
    int own = static_cast<int>(instr.stream);
    Clock need = none;
    for (const Access &a : touched[k])
      for (auto c = cellAt(a.begin), e = cellAt(a.end); c < e; ++c)
        for (int t = 0; t < kStreams; ++t) {
          need[t] = std::max(need[t], cells[c].write[t]);
          if (a.write)
            need[t] = std::max(need[t], cells[c].read[t]);
        }
    for (int throttle : instr.throttles) {
      int t = static_cast<int>(p.instrs[throttle].stream);
      need[t] = std::max(need[t], throttle);
    }
    if (!overlap && instr.stream != Stream::Feed)
      for (int t = 0; t < kStreams; ++t)
        if (t != own && t != static_cast<int>(Stream::Feed) && lastOf[t] >= 0)
          need[t] = std::max(need[t], lastOf[t]);
    Clock clock = none;
    if (lastOf[own] >= 0)
      clock = clocks[lastOf[own]];
    else if (drained[own] > none[own])
      clock = clockOf(drained[own]); // what was carried comes first on its stream
    instr.waits.clear();
    instr.carriedWaits.clear();
    // Latest first: it may order the others too.
    std::array<int, kStreams> order;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return need[a] > need[b]; });
    for (int t : order)
      if (t != own && need[t] > clock[t]) {
        clock[t] = need[t];
        if (need[t] < 0)
          instr.carriedWaits.push_back(need[t] + carried);
        else
          instr.waits.push_back(need[t]);
        for (int u = 0; u < kStreams; ++u)
          clock[u] = std::max(clock[u], clockOf(need[t])[u]);
      }
    std::sort(instr.waits.begin(), instr.waits.end());
    clock[own] = static_cast<int>(k);
    clocks[k] = clock;
    lastOf[own] = static_cast<int>(k);
    touch(touched[k], own, static_cast<int>(k));
  }
  return clocks;
}

void computeIntervals(const Schedule &s, SchedProgram &p, const std::vector<Clock> &before) {
  int n = static_cast<int>(p.instrs.size());
  int base = static_cast<int>(s.persistent.size());
  // firstAfter[t][k]: the first compute instruction that is ordered after instruction k of stream t.
  std::vector<int> firstAfter(n, n - 1);
  for (int t = 0; t < kStreams; ++t) {
    int done = -1;
    for (int c = 0; c < n; ++c) {
      if (p.instrs[c].stream != Stream::Compute)
        continue;
      for (int k = done + 1; k <= before[c][t]; ++k)
        if (static_cast<int>(p.instrs[k].stream) == t)
          firstAfter[k] = c;
      done = std::max(done, before[c][t]);
    }
  }
  for (Buffer &b : p.own)
    b.first = n, b.last = -1;
  auto touch = [&](int buffer, int k) {
    if (buffer < base)
      return;
    Buffer &b = p.own[buffer - base];
    b.first = std::min(b.first, k);
    // Compute never touches other spaces, so that there reuse delays transfers and host launches only.
    bool free = p.instrs[k].stream == Stream::Compute || b.type.space != Space::Device;
    b.last = std::max({b.last, k, free ? k : firstAfter[k]});
  };
  for (int k = 0; k < n; ++k) {
    const Instr &i = p.instrs[k];
    for (const auto *list : {&i.ins, &i.outs})
      for (PlaceRef r : *list)
        touch(r.isView ? p.views[r.index].buffer : r.index, k);
    if (i.work >= 0)
      touch(i.work, k);
  }
  for (PlaceRef r : p.returns)
    touch(r.isView ? p.views[r.index].buffer : r.index, n - 1);
}

} // namespace ds
