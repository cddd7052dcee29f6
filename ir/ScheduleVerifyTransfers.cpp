// SPDX-License-Identifier: Apache-2.0
//
// S13: a transfer copies all elements of its operand, row-major, between the spaces of its kind. What moves to or from
// nvme does so in whole blocks at whole blocks, since such transfers bypass the page cache: both ends start at
// multiples of kNvmeBlock, and the buffers are at least the rounded size.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

namespace ds {

namespace {

std::string where(const PlaceInfo &at) {
  return nameText(*at.name) + " in " + std::string(text(at.buffer->type.space));
}

std::string typeText(const Type &t) { return Type(t.dtype, t.dims).str(); }

void wholeBlocks(const SchedProgram &p, const Instr &i, const PlaceInfo &at, Findings &f) {
  int64_t end = (at.bytes + kNvmeBlock - 1) / kNvmeBlock * kNvmeBlock;
  if (at.begin % kNvmeBlock || at.rankStride % kNvmeBlock)
    f.add("S13", p, i,
          "moves blocks of nvme, but " + where(at) + " starts at byte " + std::to_string(at.begin) +
              ", which is no multiple of " + std::to_string(kNvmeBlock));
  else if (at.begin + end > at.buffer->offset + at.buffer->bytes)
    f.add("S13", p, i,
          "moves " + std::to_string(end) + " bytes in blocks of nvme, but " + where(at) +
              " has only " + std::to_string(at.buffer->offset + at.buffer->bytes - at.begin));
}

} // namespace

void verifyTransfers(const Schedule &s, const SchedProgram &p, Findings &f) {
  for (const Instr &i : p.instrs) {
    if (!isTransfer(i.kind))
      continue;
    PlaceInfo from = resolve(s, p, i.ins[0]), to = resolve(s, p, i.outs[0]);
    Route route = routeOf(*opFromText(text(i.kind)));
    if (from.buffer->type.space != route.from || to.buffer->type.space != route.to)
      f.add("S13", p, i,
            "moves " + where(from) + " to " + where(to) + ", expected " +
                std::string(text(route.from)) + " to " + std::string(text(route.to)));
    if (from.type->dtype != to.type->dtype || from.type->dims != to.type->dims)
      f.add("S13", p, i,
            "moves " + nameText(*from.name) + ", " + typeText(*from.type) + ", to " +
                nameText(*to.name) + ", " + typeText(*to.type) + "; the types must be equal");
    if (!from.strides->empty() || !to.strides->empty())
      f.add("S13", p, i, "moves elements with strides; both ends must be row-major");
    if (i.kind == InstrKind::Read || i.kind == InstrKind::Write) {
      wholeBlocks(p, i, from, f);
      wholeBlocks(p, i, to, f);
    }
  }
}

} // namespace ds
