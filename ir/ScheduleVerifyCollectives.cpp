// SPDX-License-Identifier: Apache-2.0
//
// S5: element counts and types of collectives fit the mesh. That all ranks run them in one total order
// follows from S4: there is one comm stream, and one list for all ranks.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"
#include "ir/SourceText.h"

namespace ds {

namespace {

std::string allAxes(const Schedule &s) {
  std::string axes;
  for (const auto &[axis, size] : s.mesh)
    axes += (axes.empty() ? "" : ",") + axis;
  return axes;
}

std::string typed(const PlaceInfo &p) {
  return nameText(*p.name) + " (" + std::string(text(p.type->dtype)) + ", " +
         std::to_string(p.type->elems()) + " elements)";
}

void verifyCollective(const Schedule &s, const SchedProgram &p, const Instr &i, Findings &f) {
  PlaceInfo in = resolve(s, p, i.ins[0]), out = resolve(s, p, i.outs[0]);
  auto world = s.world();
  auto wrong = [&](const std::string &what) { f.add("S5", p, i, what); };
  if (i.attrs.s("over") != allAxes(s))
    wrong("goes over '" + i.attrs.s("over") + "', expected all mesh axes: '" + allAxes(s) + "'");
  if (!in.strides->empty() || !out.strides->empty())
    wrong("must have row-major operands");
  // Sizes stay below 2^60 bytes and the mesh below 2^20 ranks, hence the division.
  int64_t whole = i.kind == InstrKind::AllGather ? out.type->elems() : in.type->elems();
  int64_t slice = i.kind == InstrKind::AllGather       ? in.type->elems()
                  : i.kind == InstrKind::ReduceScatter ? out.type->elems()
                                                       : whole;
  if (i.kind != InstrKind::AllReduce && (whole % world || whole / world != slice))
    wrong("has slices of " + std::to_string(slice) + " elements for a whole of " +
          std::to_string(whole) + " over " + std::to_string(world) + " ranks: " + typed(in) +
          " -> " + typed(out));
  if (i.kind == InstrKind::AllReduce && out.type->elems() != whole)
    wrong("has operand " + typed(in) + " and destination " + typed(out) + " of different sizes");
  if (i.elems != whole)
    wrong("says elems=" + std::to_string(i.elems) + ", but moves " + std::to_string(whole));
  DType from = in.type->dtype, to = out.type->dtype;
  if (i.kind == InstrKind::AllGather) {
    if (from != to)
      wrong("changes the element type: " + typed(in) + " -> " + typed(out));
  } else if (!(isFloat(from) && to == accumType(from)) &&
             !(i.kind == InstrKind::AllReduce && from == DType::I64 && to == DType::I64)) {
    wrong("cannot sum " + typed(in) + " into " + typed(out) +
          ": floats sum to their accumulation type, and all_reduce also i64");
  }
}

} // namespace

void verifyCollectives(const Schedule &s, const SchedProgram &p, Findings &f) {
  for (const Instr &i : p.instrs)
    if (isCollective(i.kind))
      verifyCollective(s, p, i, f);
}

} // namespace ds
