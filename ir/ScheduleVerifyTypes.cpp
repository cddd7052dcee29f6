// SPDX-License-Identifier: Apache-2.0
//
// S11: the types of a launch's operands and destinations satisfy the op's shape rule (ir/Shapes.h). Kernels
// index by these types and check nothing again.
#include "ir/ScheduleVerify.h"
#include "ir/Shapes.h"

namespace ds {

static Status checkTypes(const Schedule &s, const SchedProgram &p, const Instr &i) {
  std::vector<Type> in, want;
  for (PlaceRef r : i.ins)
    in.push_back(*resolve(s, p, r).type);
  TRY(inferShape({i.op, in, i.attrs, s.mesh, want}));
  for (size_t k = 0; k < want.size() && k < i.outs.size(); ++k) {
    PlaceInfo out = resolve(s, p, i.outs[k]);
    if (out.type->dtype != want[k].dtype || out.type->dims != want[k].dims)
      return Status::error(std::string(info(i.op).text) + ": destination " + *out.name + " is " +
                           std::string(text(out.type->dtype)) + dimsText(out.type->dims) +
                           ", expected " + std::string(text(want[k].dtype)) +
                           dimsText(want[k].dims));
  }
  return {};
}

void verifyTypes(const Schedule &s, Findings &f) {
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs)
      if (i.kind == InstrKind::Launch)
        if (Status st = checkTypes(s, p, i); !st.ok())
          f.add("S11", p, i, st.entries().front().text);
}

} // namespace ds
