// SPDX-License-Identifier: Apache-2.0
#include "ir/BucketMap.h"

#include <algorithm>

namespace ds {

// The buffers of an instruction that hold elements of one and the same bucket.
static std::vector<int> sameBucket(const Schedule &s, const SchedProgram &p, const Instr &in) {
  std::vector<PlaceRef> places;
  size_t operands = 0;
  if (in.kind == InstrKind::AllGather || in.kind == InstrKind::ReduceScatter)
    operands = 1;
  else if (isTransfer(in.kind))
    operands = 1;
  else if (in.kind != InstrKind::Launch)
    operands = 0;
  else if (in.op == OpKind::Accumulate || in.op == OpKind::Copy)
    operands = in.ins.size();
  else
    operands = static_cast<size_t>(bucketOperands(in.op));
  if (operands == 0)
    return {};
  operands = std::min(operands, in.ins.size());
  places.assign(in.ins.begin(), in.ins.begin() + static_cast<std::ptrdiff_t>(operands));
  places.insert(places.end(), in.outs.begin(), in.outs.end());
  std::vector<int> out;
  for (PlaceRef r : places)
    out.push_back(resolve(s, p, r).bufferIndex);
  return out;
}

BucketMap::BucketMap(const Schedule &s) : persistent(s.persistent.size()) {
  size_t total = persistent;
  for (const SchedProgram &p : s.programs) {
    firstOwn.push_back(total);
    total += p.own.size();
  }
  buckets.assign(total, -1);
  for (size_t b = 0; b < s.buckets.size(); ++b)
    if (int i = s.findPersistent(s.buckets[b].name); i >= 0)
      buckets[static_cast<size_t>(i)] = static_cast<int>(b);
  for (size_t b = 0; b < s.buckets.size(); ++b)
    if (int i = s.findPersistent(s.buckets[b].master); i >= 0)
      buckets[static_cast<size_t>(i)] = static_cast<int>(b);

  for (bool changed = true; changed;) {
    changed = false;
    for (size_t p = 0; p < s.programs.size(); ++p)
      for (const Instr &in : s.programs[p].instrs) {
        std::vector<int> same = sameBucket(s, s.programs[p], in);
        int known = -1;
        for (int buffer : same)
          known = std::max(known, bucketOf(p, buffer));
        for (int buffer : same)
          if (int &b = buckets[slot(p, buffer)]; b != known && b < 0) {
            b = known;
            changed = true;
          }
      }
  }
}

size_t BucketMap::slot(size_t program, int buffer) const {
  auto b = static_cast<size_t>(buffer);
  return b < persistent ? b : firstOwn[program] + b - persistent;
}

int BucketMap::bucketOf(size_t program, int buffer) const { return buckets[slot(program, buffer)]; }

} // namespace ds
