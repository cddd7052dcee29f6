// SPDX-License-Identifier: Apache-2.0
#include "passes/Cost.h"

#include "passes/Report.h"

#include <algorithm>

namespace ds {

double productFlops(const Schedule &s, const SchedProgram &p, const Instr &i) {
  if (i.kind != InstrKind::Launch)
    return 0;
  auto typeOf = [&](PlaceRef place) -> const Type & { return *resolve(s, p, place).type; };
  // Every element of y and its share of w: one product.
  auto convolution = [&](PlaceRef y, PlaceRef w) {
    auto channels = static_cast<double>(std::max<int64_t>(1, typeOf(w).dims[0]));
    return 2 * static_cast<double>(typeOf(y).elems()) * static_cast<double>(typeOf(w).elems()) /
           channels;
  };
  switch (i.op) {
  case OpKind::Matmul: {
    const Type &a = typeOf(i.ins[0]);
    auto inner = static_cast<double>(a.dims[a.dims.size() - (i.attrs.flag("trans_a") ? 2 : 1)]);
    return 2 * inner * static_cast<double>(typeOf(i.outs[0]).elems());
  }
  case OpKind::Conv:
    return convolution(i.outs[0], i.ins[1]);
  case OpKind::ConvGradInput:
    return convolution(i.ins[0], i.ins[1]);
  case OpKind::ConvGradWeight:
    return convolution(i.ins[0], i.outs[0]);
  default:
    return 0;
  }
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
      double flops = productFlops(s, p, i), rate = r.flopsF32;
      if (flops > 0 && byteSize(resolve(s, p, i.ins[0]).type->dtype) == 2)
        rate = r.flops16;
      seconds += std::max(bytes / r.memory, flops / rate);
    }
    total += seconds * static_cast<double>(runsPerUpdate(p.name, s.step.gradAccum));
  }
  return total;
}

} // namespace ds
