// SPDX-License-Identifier: Apache-2.0
#include "passes/Cost.h"

#include "passes/Report.h"

#include <algorithm>

namespace ds {

double matmulFlops(const Schedule &s, const SchedProgram &p, const Instr &i) {
  if (i.kind != InstrKind::Launch || i.op != OpKind::Matmul)
    return 0;
  const Type &a = *resolve(s, p, i.ins[0]).type, &out = *resolve(s, p, i.outs[0]).type;
  auto inner = static_cast<double>(a.dims[a.dims.size() - (i.attrs.flag("trans_a") ? 2 : 1)]);
  return 2 * inner * static_cast<double>(out.elems());
}

double computeSeconds(const Schedule &s, const DeviceRates &r) {
  double total = 0;
  for (const SchedProgram &p : s.programs) {
    double seconds = 0;
    for (const Instr &i : p.instrs) {
      if (i.kind != InstrKind::Launch)
        continue;
      double bytes = 0;
      for (const auto *places : {&i.ins, &i.outs})
        for (PlaceRef place : *places)
          bytes += static_cast<double>(resolve(s, p, place).type->bytes());
      double flops = matmulFlops(s, p, i), rate = r.flopsF32;
      if (flops > 0 && byteSize(resolve(s, p, i.ins[0]).type->dtype) == 2)
        rate = r.flops16;
      seconds += std::max(bytes / r.memory, flops / rate);
    }
    total += seconds * static_cast<double>(runsPerUpdate(p.name, s.step.gradAccum));
  }
  return total;
}

} // namespace ds
