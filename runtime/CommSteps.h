// SPDX-License-Identifier: Apache-2.0
//
// A collective as the steps that a vendor's library and our kernels do, made once at load. Two ways to sum: `native`, as the
// library does it, in its own order, and 16-bit floats in 16 bits; and `exact`, where ranks exchange parts and add them in rank
// order, with the bits of the `local` engine.
#pragma once

#include "kernels/Kernel.h"
#include "runtime/Comm.h"

namespace ds {

struct CommStep {
  enum What { Library, Messages, Sum } what = Library;
  int32_t kind = 0; // Library: of DsCollective
  // Library, Sum
  void *dst = nullptr;
  const void *src = nullptr;
  int64_t elems = 0;
  uint8_t dtype = 0;
  std::vector<DsMessage> messages = {};
  std::vector<const void *> sources = {}; // Sum: one per rank, or one that is only widened
};

/// Memory that the steps need beside the operands.
int64_t stagingBytes(const CommOp &op, int world, bool exact);
std::vector<CommStep> commSteps(const CommOp &op, int rank, int world, bool exact,
                                std::byte *staging);

} // namespace ds
