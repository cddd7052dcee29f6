// SPDX-License-Identifier: Apache-2.0
#include "ir/ScheduleVerifyHeld.h"

#include "ir/ScheduleNames.h"

#include <algorithm>

namespace ds {

bool isOptimizer(const Instr &i) {
  return i.kind == InstrKind::Launch && info(i.op).trait == Trait::Optimizer;
}

bool isUpdated(const Instr &i, PlaceRef r) {
  return isOptimizer(i) && r == i.outs[static_cast<size_t>(updatedResult(i.op))];
}

void HeldParts::Parts::write(int64_t begin, int64_t end, std::optional<Held> what) {
  auto it = lower_bound(begin);
  if (it != this->begin() && std::prev(it)->first + std::prev(it)->second.elems > begin)
    --it;
  while (it != this->end() && it->first < end) {
    const int64_t first = it->first;
    const Held held = it->second;
    it = erase(it);
    auto keep = [&](int64_t from, int64_t to) {
      if (from < to)
        emplace(from, Held{held.of, held.at + from - first, to - from, held.updated});
    };
    keep(first, begin);
    keep(end, first + held.elems);
  }
  if (what && begin < end)
    emplace(begin, std::move(*what));
}

std::optional<Held> HeldParts::Parts::read(int64_t begin, int64_t end) const {
  auto it = upper_bound(begin);
  if (it == this->begin())
    return std::nullopt;
  --it;
  Held all{it->second.of, it->second.at + begin - it->first, end - begin, it->second.updated};
  for (int64_t next = begin; next < end; ++it) {
    if (it == this->end() || it->first > next || it->first + it->second.elems <= next ||
        it->second.of != all.of || it->second.at - it->first != all.at - begin)
      return std::nullopt;
    if (it->second.updated.empty())
      all.updated.clear();
    next = it->first + it->second.elems;
  }
  return all;
}

void HeldParts::begin() { temporary.clear(); }

int64_t HeldParts::firstElem(const PlaceInfo &at) {
  return (at.begin - at.buffer->offset) / byteSize(at.type->dtype);
}

std::optional<Held> HeldParts::at(const SchedProgram &p, PlaceRef r) const {
  PlaceInfo at = resolve(s, p, r);
  if (!at.strides->empty())
    return std::nullopt;
  int64_t begin = firstElem(at), end = begin + at.type->elems();
  const auto &all = isPersistent(at.buffer->kind) ? persistent : temporary;
  auto it = all.find(at.bufferIndex);
  std::optional<Held> held = it == all.end() ? std::nullopt : it->second.read(begin, end);
  if (!held && isPersistent(at.buffer->kind))
    held = {at.bufferIndex, begin, end - begin, ""};
  return held;
}

void HeldParts::update(const SchedProgram &p, PlaceRef r, const std::string &label) {
  PlaceInfo at = resolve(s, p, r);
  int64_t begin = firstElem(at), end = begin + at.type->elems();
  persistent[at.bufferIndex].write(begin, end, Held{at.bufferIndex, begin, end - begin, label});
}

void HeldParts::follow(const SchedProgram &p, const Instr &i) {
  bool optimizer = isOptimizer(i);
  bool moves = isTransfer(i.kind) || (i.kind == InstrKind::Launch && i.op == OpKind::Cast);
  struct Write {
    PlaceInfo to;
    std::optional<Held> what;
  };
  std::vector<Write> writes; // what it reads is what was there before
  for (size_t o = 0; o < i.outs.size(); ++o) {
    PlaceInfo to = resolve(s, p, i.outs[o]);
    if (isPersistent(to.buffer->kind))
      continue;
    int tied = tiedOperand(i.op, static_cast<int>(o), static_cast<int>(i.ins.size()));
    std::optional<Held> what;
    if (optimizer) // the rounded weights of adam_round come from the master
      what = at(p, i.ins[static_cast<size_t>(std::max(tied, 1))]);
    else if (moves)
      what = at(p, i.ins[0]);
    if (what && optimizer)
      what->updated = nameText(i.label);
    if (what && (!to.strides->empty() || what->elems != to.type->elems()))
      what.reset();
    writes.push_back({to, std::move(what)});
  }
  for (Write &w : writes) {
    int64_t size = byteSize(w.to.type->dtype), begin = firstElem(w.to);
    temporary[w.to.bufferIndex].write(begin, begin + (w.to.bytes + size - 1) / size,
                                      std::move(w.what));
  }
}

} // namespace ds
