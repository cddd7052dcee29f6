// SPDX-License-Identifier: Apache-2.0
//
// Target descriptions: what is accepted leaves memory for a plan, and every rate is a number.
#include "frontend/Target.h"
#include "test/fuzz/Fuzz.h"

#include <cmath>

using namespace ds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StatusOr<Target> t = parseTarget(fuzz::textOf(data, size), "f.json");
  if (!t.ok())
    return 0;
  fuzz::require(t->deviceMemory > t->reserve && t->reserve >= 0, "memory is left");
  fuzz::require(t->hostMemory >= 0, "host memory is a size");
  for (double rate : {t->memoryRate, t->linkRate, t->flopsF32, t->flops16Bit})
    fuzz::require(rate >= 0 && std::isfinite(rate), "rates are numbers");
  for (const auto &[op, curve] : t->curves) {
    fuzz::require(!curve.empty(), "curves have points");
    for (size_t k = 0; k < curve.size(); ++k)
      fuzz::require(curve[k].perSecond > 0 && std::isfinite(curve[k].perSecond) &&
                        curve[k].amount > (k ? curve[k - 1].amount : 0),
                    "points go up");
  }
  return 0;
}
