// SPDX-License-Identifier: Apache-2.0
#include "runtime/CheckpointState.h"

#include "ir/BucketMap.h"

#include <algorithm>

namespace ds {

// PyTorch's names of the states.
static const char *slotName(OpKind optimizer, size_t operand) {
  if (optimizer == OpKind::Adam || optimizer == OpKind::AdamRound)
    return operand == 2 ? "exp_avg" : operand == 3 ? "exp_avg_sq" : nullptr;
  return optimizer == OpKind::Sgd && operand == 2 ? "momentum" : nullptr;
}

static StateSlot slotOf(const Schedule &s, size_t bucket, int buffer, const char *name) {
  int64_t elems = s.persistent[static_cast<size_t>(buffer)].type.elems();
  return {bucket, buffer, elems == s.buckets[bucket].elems, name};
}

StateSlot weightSlot(const Schedule &s, size_t bucket) {
  const BucketInfo &b = s.buckets[bucket];
  return slotOf(s, bucket, s.findPersistent(b.master.empty() ? b.name : b.master), "weight");
}

std::vector<StateSlot> roundedSlots(const Schedule &s) {
  std::vector<StateSlot> out;
  for (size_t b = 0; b < s.buckets.size(); ++b)
    if (!s.buckets[b].master.empty())
      out.push_back(slotOf(s, b, s.findPersistent(s.buckets[b].name), "weight"));
  return out;
}

// Where an operand of instruction k is kept: for what a transfer has brought, the place it came from.
static PlaceInfo homeOf(const Schedule &s, const SchedProgram &p, size_t k, PlaceRef operand) {
  PlaceInfo at = resolve(s, p, operand);
  for (size_t i = k; at.buffer->kind == BufferKind::Temp && i-- > 0;)
    if (const Instr &in = p.instrs[i];
        isTransfer(in.kind) && resolve(s, p, in.outs[0]).buffer == at.buffer)
      at = resolve(s, p, in.ins[0]);
  return at;
}

std::vector<StateSlot> stateSlots(const Schedule &s) {
  std::vector<StateSlot> out;
  for (size_t b = 0; b < s.buckets.size(); ++b)
    out.push_back(weightSlot(s, b));
  BucketMap map(s);
  for (size_t p = 0; p < s.programs.size(); ++p)
    for (size_t k = 0; k < s.programs[p].instrs.size(); ++k) {
      const Instr &i = s.programs[p].instrs[k];
      for (size_t o = 0; i.kind == InstrKind::Launch && o < i.ins.size(); ++o) {
        const char *name = slotName(i.op, o);
        if (!name)
          continue;
        PlaceInfo at = homeOf(s, s.programs[p], k, i.ins[o]);
        int bucket = map.bucketOf(p, at.bufferIndex);
        bool isFirst = std::none_of(out.begin(), out.end(), [&](const StateSlot &known) {
          return known.buffer == at.bufferIndex; // large updates run in slices
        });
        if (bucket >= 0 && at.buffer->kind == BufferKind::State && isFirst)
          out.push_back(slotOf(s, static_cast<size_t>(bucket), at.bufferIndex, name));
      }
    }
  return out;
}

std::vector<int> stateScalars(const Schedule &s) {
  std::vector<int> out;
  const SchedProgram *update = s.program("update");
  for (size_t b = 0; update && b < s.persistent.size(); ++b) {
    bool written = std::any_of(update->instrs.begin(), update->instrs.end(), [&](const Instr &i) {
      return std::any_of(i.outs.begin(), i.outs.end(), [&](PlaceRef r) {
        return resolve(s, *update, r).bufferIndex == static_cast<int>(b);
      });
    });
    if (written && s.persistent[b].kind == BufferKind::Scalar)
      out.push_back(static_cast<int>(b));
  }
  return out;
}

std::vector<int> scaleScalars(const Schedule &s) {
  std::vector<int> out;
  const SchedProgram *update = s.program("update");
  for (const Instr &i : update ? update->instrs : std::vector<Instr>())
    if (i.kind == InstrKind::Launch && i.op == OpKind::LossScale)
      for (PlaceRef r : i.outs)
        out.push_back(resolve(s, *update, r).bufferIndex);
  return out;
}

ElemRange ownedElems(const Schedule &s, const BucketInfo &b, const SegmentInfo &g, int64_t rank) {
  int64_t slice = b.elems / s.world(), begin = rank * slice, total = Type(b.dtype, g.shape).elems();
  return {std::clamp<int64_t>(begin - g.at, 0, total),
          std::clamp<int64_t>(begin + slice - g.at, 0, total)};
}

int64_t firstElem(const Schedule &s, const StateSlot &slot, int64_t rank) {
  return slot.whole ? 0 : rank * (s.buckets[slot.bucket].elems / s.world());
}

} // namespace ds
