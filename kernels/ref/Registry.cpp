// SPDX-License-Identifier: Apache-2.0
#include "kernels/Registry.h"

#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <cstdarg>
#include <cstdio>

namespace ds {

namespace ref {

const char *message(const char *format, ...) {
  static thread_local char buffer[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

// The only static condition that no shape rule sees: a plan's text may declare any rank.
static const char *checkRanks(const DsLaunch *l, void **) {
  for (int32_t i = 0; i < l->numIns + l->numOuts; ++i) {
    const DsTensor &t = i < l->numIns ? l->ins[i] : l->outs[i - l->numIns];
    if (t.rank > kMaxRank)
      return "a tensor has more than 16 axes";
  }
  return nullptr;
}

} // namespace ref

static const DsKernel rows[] = {
#define REF(op, dtypes, run) {op, dtypes, ref::checkRanks, ref::run, nullptr, nullptr, nullptr},
#define REF_STATE(op, dtypes, run)                                                                 \
  {op, dtypes, ref::run##Prepare, ref::run, ref::run##Destroy, nullptr, nullptr},
#include "kernels/Kernels.def"
};

KernelTable refKernels() { return {rows, sizeof rows / sizeof rows[0]}; }

} // namespace ds
