// SPDX-License-Identifier: Apache-2.0
//
// assign-streams: waits from conflicts over bytes, and lifetimes. Bytes are split at every boundary of every
// access, so that one cell of state per piece is enough: the last write and read on each stream.
#include "passes/Emit.h"

#include <algorithm>
#include <array>

namespace ds {

namespace {

struct Access {
  int64_t begin, end;
  bool write;
};

using Clock = std::array<int, kStreams>;

// The bytes an instruction touches. An own slice counts as the whole buffer: it differs by rank.
void addAccess(const Schedule &s, const SchedProgram &p, PlaceRef r, bool write,
               std::vector<Access> &out) {
  PlaceInfo i = resolve(s, p, r);
  if (i.bytes == 0)
    return;
  bool own = r.isView && p.views[r.index].own;
  if (own)
    out.push_back({i.buffer->offset, i.buffer->offset + i.buffer->bytes, write});
  else
    out.push_back({i.begin, i.begin + i.bytes, write});
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

// Instructions that the program before has left running, as accesses; they are numbered -n, ..., -1.
std::vector<std::vector<Access>> carriedAccesses(const Schedule &s, const SchedProgram &p) {
  std::vector<std::vector<Access>> out;
  const SchedProgram *update = p.carried.empty() ? nullptr : s.program("update");
  if (update)
    for (int k : carriedOut(*update))
      out.push_back(accesses(s, *update, update->instrs[k]));
  return out;
}

} // namespace

std::vector<Clock> computeWaits(const Schedule &s, SchedProgram &p, bool overlap) {
  size_t n = p.instrs.size();
  std::vector<std::vector<Access>> before = carriedAccesses(s, p), touched(n);
  auto carried = static_cast<int>(before.size());
  std::vector<int64_t> cuts;
  auto cut = [&](const std::vector<Access> &list) {
    for (const Access &a : list) {
      cuts.push_back(a.begin);
      cuts.push_back(a.end);
    }
  };
  for (const auto &list : before)
    cut(list);
  for (size_t k = 0; k < n; ++k) {
    touched[k] = accesses(s, p, p.instrs[k]);
    cut(touched[k]);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  constexpr int kComm = static_cast<int>(Stream::Comm);
  Clock none{-1, -1, -1};
  none[kComm] = -1 - carried;
  std::vector<Cell> cells(cuts.size(), {none, none});
  auto cellAt = [&](int64_t byte) {
    return std::lower_bound(cuts.begin(), cuts.end(), byte) - cuts.begin();
  };

  auto touch = [&](const std::vector<Access> &list, int stream, int k) {
    for (const Access &a : list)
      for (auto c = cellAt(a.begin), e = cellAt(a.end); c < e; ++c)
        (a.write ? cells[c].write : cells[c].read)[stream] = k;
  };
  for (int k = 0; k < carried; ++k)
    touch(before[k], kComm, k - carried);

  std::vector<Clock> clocks(n);
  Clock lastOf{-1, -1, -1}; // latest instruction so far on each stream
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
    if (instr.throttle >= 0) {
      int t = static_cast<int>(p.instrs[instr.throttle].stream);
      need[t] = std::max(need[t], instr.throttle);
    }
    if (!overlap && instr.stream != Stream::Feed) {
      int other = instr.stream == Stream::Comm ? static_cast<int>(Stream::Compute)
                                               : static_cast<int>(Stream::Comm);
      need[other] = std::max(need[other], lastOf[other]);
    }
    Clock clock = none;
    if (lastOf[own] >= 0)
      clock = clocks[lastOf[own]];
    else if (own == kComm)
      clock[kComm] = -1; // what was carried comes first on its stream
    instr.waits.clear();
    instr.carriedWaits.clear();
    // Latest first: it may order the others too.
    std::array<int, kStreams> order{0, 1, 2};
    std::sort(order.begin(), order.end(), [&](int a, int b) { return need[a] > need[b]; });
    for (int t : order)
      if (t != own && need[t] > clock[t]) {
        clock[t] = need[t];
        if (need[t] < 0) {
          instr.carriedWaits.push_back(need[t] + carried);
          continue;
        }
        instr.waits.push_back(need[t]);
        for (int u = 0; u < kStreams; ++u)
          clock[u] = std::max(clock[u], clocks[need[t]][u]);
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
    b.last = std::max({b.last, k, p.instrs[k].stream == Stream::Compute ? k : firstAfter[k]});
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
