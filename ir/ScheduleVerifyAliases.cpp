// SPDX-License-Identifier: Apache-2.0
//
// S10: inside one instruction, a destination shares bytes with an operand only where the operation is made
// for it: a tied operand in its very place, one that it may overwrite (Ops.def) with the same layout, an operand of pack
// in its segment, a collective between a whole vector and this rank's own slice of it. Destinations and
// workspace never share bytes. A destination that is tied to an operand is that operand: such kernels update in
// place.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

namespace ds {

namespace {

bool sameLayout(const PlaceInfo &a, const PlaceInfo &b) {
  return a.begin == b.begin && a.rankStride == b.rankStride && a.bytes == b.bytes &&
         byteSize(a.type->dtype) == byteSize(b.type->dtype) && a.type->elems() == b.type->elems() &&
         *a.strides == *b.strides && (a.strides->empty() || a.type->dims == b.type->dims);
}

/// `slice` is an own view that starts where `whole` does, and the ranks' slices make up `whole`.
bool isOwnSlice(const Schedule &s, const PlaceInfo &slice, const PlaceInfo &whole) {
  return slice.begin == whole.begin && slice.rankStride == slice.bytes && whole.rankStride == 0 &&
         slice.bytes * s.world() == whole.bytes;
}

/// Whether destination `out` may be the storage of operand `in`.
bool mayShare(const Schedule &s, const SchedProgram &p, const Instr &i, int in, int out) {
  PlaceInfo a = resolve(s, p, i.ins[in]), b = resolve(s, p, i.outs[out]);
  switch (i.kind) {
  case InstrKind::Launch: {
    if (i.op == OpKind::Pack) { // an operand that was computed where it is packed
      std::vector<int64_t> at = i.attrs.list("at");
      return a.rankStride == 0 && a.strides->empty() && in < static_cast<int>(at.size()) &&
             (a.begin - b.begin) / byteSize(b.type->dtype) == at[in] &&
             (a.begin - b.begin) % byteSize(b.type->dtype) == 0;
    }
    bool tied = tiedOperand(i.op, out, static_cast<int>(i.ins.size())) == in;
    return (tied || (out == 0 && mayOverwrite(i.op, in))) && sameLayout(a, b);
  }
  case InstrKind::AllGather:
    return isOwnSlice(s, a, b);
  case InstrKind::ReduceScatter:
    return isOwnSlice(s, b, a);
  default:
    return false;
  }
}

/// Whether destination `out` is in place where the operation updates in place.
void verifyTied(const Schedule &s, const SchedProgram &p, const Instr &i, int out, Findings &f) {
  int in =
      i.kind == InstrKind::Launch ? tiedOperand(i.op, out, static_cast<int>(i.ins.size())) : -1;
  if (in < 0)
    return;
  PlaceInfo a = resolve(s, p, i.ins[static_cast<size_t>(in)]),
            b = resolve(s, p, i.outs[static_cast<size_t>(out)]);
  if (!sameLayout(a, b))
    f.add("S10", p, i,
          "updates " + nameText(*a.name) + ", but its destination is " + nameText(*b.name) +
              "; it must be the same place");
}

} // namespace

void verifyAliases(const Schedule &s, const SchedProgram &p, Findings &f) {
  for (const Instr &i : p.instrs) {
    auto shares = [&](const Access &a, const Access &b) {
      f.add("S10", p, i,
            "writes " + nameText(*b.name) + ", " + bytesText(b) + ", over its own " +
                nameText(*a.name) + ", " + bytesText(a));
    };
    std::vector<Access> written;
    for (size_t o = 0; o < i.outs.size(); ++o) {
      Access b = accessOf(s, p, i.outs[o], true);
      verifyTied(s, p, i, static_cast<int>(o), f);
      for (size_t k = 0; k < i.ins.size(); ++k)
        if (Access a = accessOf(s, p, i.ins[k], false);
            overlap(a, b) && !mayShare(s, p, i, static_cast<int>(k), static_cast<int>(o)))
          shares(a, b);
      for (const Access &other : written)
        if (overlap(other, b))
          shares(other, b);
      written.push_back(b);
    }
    if (i.work < 0)
      continue;
    const Buffer &w = bufferAt(s, p, i.work);
    Access work = {w.type.space, w.offset, w.offset + w.bytes, i.work, &w.name, true};
    for (PlaceRef r : i.ins)
      if (Access a = accessOf(s, p, r, false); overlap(a, work))
        shares(a, work);
    for (const Access &a : written)
      if (overlap(a, work))
        shares(a, work);
  }
}

} // namespace ds
