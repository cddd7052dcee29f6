// SPDX-License-Identifier: Apache-2.0
#include "runtime/MemoryWatch.h"

#include "runtime/Replay.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ds {

static constexpr int kPoison = 0xff;

const char *MemoryWatch::keep(std::string text) {
  message = std::move(text);
  return message.c_str();
}

size_t MemoryWatch::arenaOf(Space space) const {
  size_t a = 0;
  while (a < s.arenas.size() && s.arenas[a].space != space)
    ++a;
  return a;
}

std::byte *MemoryWatch::at(size_t arena, int64_t byte) const {
  return rank.arena(arena).data() + byte;
}

MemoryWatch::Range MemoryWatch::rangeOf(const SchedProgram &p, PlaceRef r, bool write) const {
  PlaceInfo i = resolve(s, p, r);
  int64_t begin = i.begin + rank.rank * i.rankStride;
  return {arenaOf(i.buffer->type.space), begin, begin + i.bytes, write, i.bytes == i.type->bytes()};
}

std::vector<MemoryWatch::Range> MemoryWatch::ranges(const SchedProgram &p, const Instr &i) const {
  std::vector<Range> out;
  for (PlaceRef r : i.ins)
    out.push_back(rangeOf(p, r, false));
  for (PlaceRef r : i.outs)
    out.push_back(rangeOf(p, r, true));
  if (i.work >= 0)
    out.push_back(rangeOf(p, {false, i.work}, true));
  std::erase_if(out, [](const Range &r) { return r.begin == r.end; });
  return out;
}

void MemoryWatch::poison(const Buffer &b) {
  size_t a = arenaOf(b.type.space);
  std::memset(at(a, b.offset), kPoison, static_cast<size_t>(b.bytes));
  std::memset(shadow[a].data() + b.offset, kPoison, static_cast<size_t>(b.bytes));
}

/// Arena against copy; names who changed what.
const char *MemoryWatch::compare(const SchedProgram *p, size_t arena, int64_t begin, int64_t end,
                                 const std::string &who) {
  const std::byte *now = at(arena, begin), *then = shadow[arena].data() + begin;
  if (begin >= end || std::memcmp(now, then, static_cast<size_t>(end - begin)) == 0)
    return nullptr;
  int64_t byte = begin + (std::mismatch(now, now + (end - begin), then).first - now);
  std::string inside = "no buffer";
  auto look = [&](const Buffer &b) {
    if (arenaOf(b.type.space) == arena && b.offset <= byte && byte < b.offset + b.bytes)
      inside = fmt::format("byte {} of {}", byte - b.offset, b.name);
  };
  for (const Buffer &b : s.persistent)
    look(b);
  if (p)
    for (const Buffer &b : p->own)
      look(b);
  return keep(fmt::format("{} changed {} byte {} ({}), which it does not declare", who,
                          text(s.arenas[arena].space), byte, inside));
}

const char *MemoryWatch::beginProgram(const LoadedProgram &p) {
  bool first = shadow.empty();
  shadow.resize(s.arenas.size());
  for (size_t a = 0; a < s.arenas.size(); ++a) {
    const ArenaInfo &info = s.arenas[a];
    if (info.space == Space::Nvme)
      continue; // checksums of the file watch over it
    if (first)
      shadow[a].resize(static_cast<size_t>(info.bytes));
    else if (const char *m =
                 compare(nullptr, a, 0, info.persistentBytes, "something between programs"))
      return m;
    std::memset(at(a, info.persistentBytes), kPoison,
                static_cast<size_t>(info.bytes - info.persistentBytes));
    std::memcpy(shadow[a].data(), at(a, 0), static_cast<size_t>(info.bytes));
  }
  (void)p;
  return nullptr;
}

const char *MemoryWatch::before(const LoadedProgram &p, const LoadedInstr &in) {
  auto k = static_cast<int>(in.instr - p.program->instrs.data());
  for (const Buffer &b : p.program->own)
    if (b.first == k)
      poison(b);
  if (in.instr->kind != InstrKind::Launch)
    return nullptr;
  return replay(p, in);
}

/// Runs the launch twice on copies, which must agree; keeps its results for after().
const char *MemoryWatch::replay(const LoadedProgram &p, const LoadedInstr &in) {
  Replay copies;
  for (const Range &r : ranges(*p.program, *in.instr))
    copies.add(at(r.arena, r.begin), r.end - r.begin);
  for (PlaceRef r : in.instr->outs)
    if (Range d = rangeOf(*p.program, r, true); d.begin < d.end && d.dense)
      copies.destination(at(d.arena, d.begin), d.end - d.begin);
  if (in.instr->work >= 0)
    if (Range w = rangeOf(*p.program, {false, in.instr->work}, true); w.begin < w.end)
      copies.destination(at(w.arena, w.begin), w.end - w.begin);
  for (PlaceRef r : in.instr->ins)
    if (Range d = rangeOf(*p.program, r, false); d.begin < d.end)
      copies.operand(at(d.arena, d.begin), d.end - d.begin);
  ++launches;
  std::vector<std::vector<std::byte>> trials[2];
  for (int t = 0; t < 2; ++t) {
    if (const char *m = copies.run(in, t))
      return keep(m);
    if (std::string damage = copies.damage(); !damage.empty())
      return keep(damage);
    for (PlaceRef r : in.instr->outs) {
      Range d = rangeOf(*p.program, r, true);
      trials[t].push_back(copies.bytes(at(d.arena, d.begin), d.end - d.begin));
    }
  }
  if (trials[0] != trials[1])
    return keep(
        "gives different results when its operands lie elsewhere: it reads outside of them, "
        "does not write all of its destination, or keeps something from call to call");
  results = std::move(trials[0]);
  return nullptr;
}

const char *MemoryWatch::after(const LoadedProgram &p, const LoadedInstr &in) {
  const Instr &i = *in.instr;
  std::vector<Range> touched = ranges(*p.program, i);
  std::erase_if(touched, [](const Range &r) { return !r.write; });
  std::sort(touched.begin(), touched.end(), [](const Range &a, const Range &b) {
    return std::pair(a.arena, a.begin) < std::pair(b.arena, b.begin);
  });
  std::erase_if(touched, [&](const Range &r) { return s.arenas[r.arena].space == Space::Nvme; });
  for (size_t a = 0; a < s.arenas.size(); ++a) {
    if (s.arenas[a].space == Space::Nvme)
      continue;
    int64_t from = 0;
    for (const Range &r : touched) {
      if (r.arena != a)
        continue;
      if (const char *m = compare(p.program, a, from, r.begin, "it"))
        return m;
      from = std::max(from, r.end);
    }
    if (const char *m = compare(p.program, a, from, s.arenas[a].bytes, "it"))
      return m;
  }
  for (const Range &r : touched)
    std::memcpy(shadow[r.arena].data() + r.begin, at(r.arena, r.begin),
                static_cast<size_t>(r.end - r.begin));
  if (i.kind == InstrKind::Launch)
    for (size_t o = 0; o < i.outs.size(); ++o) {
      Range d = rangeOf(*p.program, i.outs[o], true);
      if (std::memcmp(results[o].data(), at(d.arena, d.begin), results[o].size()) != 0)
        return keep("gives another result than on copies of its operands");
    }
  auto k = static_cast<int>(&i - p.program->instrs.data());
  for (const Buffer &b : p.program->own)
    if (b.last == k &&
        std::none_of(p.program->returns.begin(), p.program->returns.end(),
                     [&](PlaceRef r) { return resolve(s, *p.program, r).buffer == &b; }))
      poison(b);
  ++watched;
  return nullptr;
}

} // namespace ds
