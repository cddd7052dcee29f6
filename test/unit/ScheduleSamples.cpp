// SPDX-License-Identifier: Apache-2.0
#include "test/unit/ScheduleSamples.h"

#include <algorithm>
#include <random>

namespace ds {

static Buffer floats(std::string name, BufferKind kind, int64_t offset, int64_t elems, int first,
                     int last) {
  Buffer b;
  b.name = std::move(name);
  b.kind = kind;
  b.type = Type(DType::F32, {elems});
  b.offset = offset;
  b.bytes = elems * 4;
  b.first = first;
  b.last = last;
  return b;
}

static Instr launch(OpKind op, std::string label, std::vector<PlaceRef> ins, PlaceRef out) {
  Instr i;
  i.op = op;
  i.label = std::move(label);
  i.ins = std::move(ins);
  i.outs = {out};
  i.named = 1;
  return i;
}

static Instr gather(std::string label, PlaceRef in, PlaceRef out, int64_t elems) {
  Instr i = launch(OpKind::Copy, std::move(label), {in}, out);
  i.kind = InstrKind::AllGather;
  i.stream = Stream::Comm;
  i.attrs.set("over", std::string("dp"));
  i.elems = elems;
  return i;
}

// Layers of 9 instructions: one gather into one of two slots, eight launches that read it in turn.
Schedule bigSchedule(int n) {
  constexpr int64_t kElems = 1024;
  Schedule s;
  s.name = "big";
  s.mesh = {{"dp", 4}};
  s.step.stage = 3;
  int layers = std::max(1, n / 9);
  for (int l = 0; l < layers; ++l) {
    s.persistent.push_back(
        floats("l" + std::to_string(l), BufferKind::Param, l * kElems, kElems / 4, 0, 0));
    BucketInfo b;
    b.name = s.persistent.back().name;
    b.elems = kElems;
    b.sharded = true;
    b.trainable = false;
    s.buckets.push_back(b);
  }
  int64_t base = layers * kElems;
  s.arenas = {{Space::Device, base + 16 * kElems * 4, base, 256, base}};
  SchedProgram p;
  p.name = "micro.only";
  auto own = [&](Buffer b) {
    p.own.push_back(std::move(b));
    return PlaceRef{false, static_cast<int>(s.persistent.size() + p.own.size()) - 1};
  };
  PlaceRef previous;
  std::vector<int> lastReader(layers, -1);
  for (int l = 0; l < layers; ++l) {
    std::string name = "l" + std::to_string(l);
    int at = static_cast<int>(p.instrs.size());
    PlaceRef full = own(
        floats(name + ".full", BufferKind::Temp, base + (l % 2) * kElems * 4, kElems, at, at + 8));
    p.instrs.push_back(gather(name + ".full", {false, l}, full, kElems));
    if (l >= 2)
      p.instrs.back().waits = {lastReader[l - 2]};
    for (int k = 0; k < 8; ++k) {
      std::string h = name + ".h" + std::to_string(k);
      int index = at + 1 + k;
      PlaceRef out = own(floats(h, BufferKind::Temp, base + (2 + (l * 8 + k) % 12) * kElems * 4,
                                kElems, index, index + (k == 7 ? 2 : 1)));
      if (index == 1)
        p.instrs.push_back(launch(OpKind::Neg, h, {full}, out));
      else
        p.instrs.push_back(launch(OpKind::Add, h, {previous, full}, out));
      if (k == 0)
        p.instrs.back().waits = {at};
      previous = out;
    }
    lastReader[l] = static_cast<int>(p.instrs.size()) - 1;
  }
  p.own.back().last = static_cast<int>(p.instrs.size()) - 1;
  s.programs.push_back(std::move(p));
  SchedProgram update;
  update.name = "update";
  s.programs.push_back(std::move(update));
  return s;
}

Schedule randomSchedule(unsigned seed, int n) {
  std::minstd_rand random(seed * 2654435761u + 1);
  auto below = [&](int k) { return static_cast<int>(random() % static_cast<unsigned>(k)); };
  Schedule s;
  s.name = "random";
  s.mesh = {{"dp", 1}};
  s.arenas = {{Space::Device, 256 * 10, 256 * 2, 256, 0}};
  s.persistent.push_back(floats("p0", BufferKind::State, 0, 64, 0, 0));
  s.persistent.push_back(floats("p1", BufferKind::State, 256, 64, 0, 0));
  SchedProgram p;
  p.name = "micro.only";
  for (int b = 0; b < 6; ++b) {
    int64_t units = 1 + below(2), offset = 2 + below(8 - static_cast<int>(units) + 1);
    p.own.push_back(
        floats("b" + std::to_string(b), BufferKind::Temp, offset * 256, units * 64, 0, n - 1));
  }
  for (int v = 0; v < 4; ++v) { // the upper half, or every second element, of some buffer
    View w;
    w.name = "v" + std::to_string(v);
    w.buffer = 2 + below(6);
    int64_t elems = p.own[w.buffer - 2].type.dims[0] / 2;
    w.type = Type(DType::F32, {elems});
    if (v % 2)
      w.strides = {2};
    else
      w.offset = elems * 4;
    p.views.push_back(w);
  }
  auto place = [&] {
    int k = below(12);
    return k < 8 ? PlaceRef{false, k} : PlaceRef{true, k - 8};
  };
  for (int j = 0; j < n; ++j) {
    std::string label = "i" + std::to_string(j);
    Instr i = launch(OpKind::Add, label, {place(), place()}, place());
    int kind = below(5);
    if (kind >= 3) {
      i = launch(OpKind::Copy, label, {place()}, place());
      i.kind = kind == 3 ? InstrKind::AllGather : InstrKind::Feed;
      i.stream = kind == 3 ? Stream::Comm : Stream::Feed;
      if (kind == 4)
        i.ins.clear();
    }
    for (int w = 0; w < j; ++w)
      if (p.instrs[w].stream != i.stream && below(4) == 0)
        i.waits.push_back(w);
    p.instrs.push_back(std::move(i));
  }
  s.programs.push_back(std::move(p));
  return s;
}

// -- brute force ------------------------------------------------------------------------------------

namespace {
struct Bytes {
  int64_t begin, end;
  bool write;
};
} // namespace

static Bytes bytesOf(const Schedule &s, const SchedProgram &p, PlaceRef r, bool write) {
  int buffer = r.isView ? p.views[r.index].buffer : r.index;
  size_t fixed = s.persistent.size();
  const Buffer &b = buffer < static_cast<int>(fixed) ? s.persistent[buffer] : p.own[buffer - fixed];
  if (!r.isView)
    return {b.offset, b.offset + b.type.bytes(), write};
  const View &v = p.views[r.index];
  int64_t begin = b.offset + v.offset;
  if (v.own) // one schedule serves all ranks
    return {begin, begin + v.type.bytes() * s.world(), write};
  if (v.strides.empty())
    return {begin, begin + v.type.bytes(), write};
  int64_t last = 0;
  for (size_t d = 0; d < v.strides.size(); ++d)
    last += (v.type.dims[d] - 1) * v.strides[d];
  return {begin, begin + (last + 1) * byteSize(v.type.dtype), write};
}

static bool conflict(const Schedule &s, const SchedProgram &p, const Instr &a,
                     const SchedProgram &q, const Instr &b) {
  auto all = [&](const SchedProgram &p, const Instr &i) {
    std::vector<Bytes> list;
    for (PlaceRef r : i.ins)
      list.push_back(bytesOf(s, p, r, false));
    for (PlaceRef r : i.outs)
      list.push_back(bytesOf(s, p, r, true));
    if (i.work >= 0) {
      const Buffer &b = bufferAt(s, p, i.work);
      list.push_back({b.offset, b.offset + b.bytes, true});
    }
    return list;
  };
  for (const Bytes &x : all(p, a))
    for (const Bytes &y : all(q, b))
      if ((x.write || y.write) && x.begin < y.end && y.begin < x.end)
        return true;
  return false;
}

std::vector<std::pair<int, int>> racesByBruteForce(const Schedule &s, const SchedProgram &p) {
  // What the program before has left running comes first.
  std::vector<std::pair<const SchedProgram *, const Instr *>> all;
  for (const SchedProgram &q : s.programs)
    for (const Instr &i : q.instrs)
      if (i.carry && !p.carried.empty())
        all.emplace_back(&q, &i);
  size_t before = all.size(), n = before + p.instrs.size();
  for (const Instr &i : p.instrs)
    all.emplace_back(&p, &i);
  std::vector<std::vector<bool>> reach(n, std::vector<bool>(n, false));
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < j; ++i)
      if (all[i].second->stream == all[j].second->stream)
        reach[i][j] = true;
    if (j < before)
      continue;
    for (int w : all[j].second->waits)
      reach[before + static_cast<size_t>(w)][j] = true;
    for (int w : all[j].second->carriedWaits)
      reach[w][j] = true;
  }
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (reach[i][k] && reach[k][j])
          reach[i][j] = true;
  std::vector<std::pair<int, int>> races;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j)
      if (j >= before && !reach[i][j] && !reach[j][i] &&
          conflict(s, *all[i].first, *all[i].second, p, *all[j].second))
        races.emplace_back(static_cast<int>(i) - static_cast<int>(before),
                           static_cast<int>(j - before));
  return races;
}

static int indexOf(const SchedProgram &p, std::string_view label) {
  for (size_t i = 0; i < p.instrs.size(); ++i)
    if (p.instrs[i].label == label)
      return static_cast<int>(i);
  for (size_t i = 0; i < p.carried.size(); ++i)
    if (p.carried[i] == label)
      return static_cast<int>(i) - static_cast<int>(p.carried.size());
  return INT32_MIN; // pairs with nothing
}

// "micro.only: J (compute) ... missing: wait I [S2]"
std::vector<std::pair<int, int>> racesReported(const Schedule &s, const SchedProgram &p) {
  std::vector<std::pair<int, int>> pairs;
  Status st = verifySchedule(s);
  for (const ErrorEntry &e : st.entries()) {
    size_t end = e.text.find(" [S2]"), wait = e.text.rfind("wait ");
    if (end == std::string::npos || !e.text.starts_with(p.name + ": "))
      continue;
    size_t label = p.name.size() + 2;
    pairs.emplace_back(indexOf(p, e.text.substr(wait + 5, end - wait - 5)),
                       indexOf(p, e.text.substr(label, e.text.find(' ', label) - label)));
  }
  return pairs;
}

bool exchange(SchedProgram &p, int k) {
  auto &waits = p.instrs[k + 1].waits;
  if (std::find(waits.begin(), waits.end(), k) != waits.end())
    return false;
  std::swap(p.instrs[k], p.instrs[k + 1]);
  for (Instr &i : p.instrs)
    for (int &w : i.waits)
      w = w == k ? k + 1 : w == k + 1 ? k : w;
  return true;
}

} // namespace ds
