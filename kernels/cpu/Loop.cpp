// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Loop.h"

#include "kernels/cpu/Cpu.h"

namespace ds::cpu {

const char *requireF32(const DsLaunch &l) {
  for (int i = 0; i < l.numIns; ++i)
    if (!is(l.ins[i], DType::F32))
      return "the cpu kernel needs f32 operands";
  for (int i = 0; i < l.numOuts; ++i)
    if (!is(l.outs[i], DType::F32))
      return "the cpu kernel needs f32 results";
  return nullptr;
}

const char *Loop::init(const DsTensor &out, const DsTensor *ins, int numIns) {
  int64_t broadcast[kLoopOperands][kMaxRank];
  const int64_t *all[kLoopOperands] = {out.strides};
  if (out.rank > kMaxRank || numIns >= kLoopOperands)
    return "more than 16 axes";
  for (int k = 0; k < numIns; ++k) {
    const DsTensor &t = ins[k];
    int lead = out.rank - t.rank;
    if (lead < 0)
      return "an operand has more axes than the result";
    for (int i = 0; i < out.rank; ++i) {
      int64_t extent = i < lead ? 1 : t.dims[i - lead];
      if (extent != 1 && extent != out.dims[i])
        return "an operand does not broadcast to the result";
      broadcast[k][i] = extent == 1 ? 0 : t.strides[i - lead];
    }
    all[k + 1] = broadcast[k];
  }
  return init(out.rank, out.dims, numIns + 1, all);
}

const char *Loop::init(int numAxes, const int64_t *extents, int numOperands,
                       const int64_t *const *given) {
  if (numAxes > kMaxRank)
    return "more than 16 axes";
  rank = 0;
  operands = numOperands;
  total = 1;
  for (int i = 0; i < numAxes; ++i) {
    total *= extents[i];
    if (extents[i] == 1)
      continue;
    bool merges = rank > 0;
    for (int k = 0; k < operands && merges; ++k)
      merges = strides[k][rank - 1] == given[k][i] * extents[i];
    if (!merges)
      dims[rank++] = 1;
    dims[rank - 1] *= extents[i];
    for (int k = 0; k < operands; ++k)
      strides[k][rank - 1] = given[k][i];
  }
  if (rank == 0) { // a scalar: one run of one element, contiguous everywhere
    rank = 1;
    dims[0] = 1;
    for (int k = 0; k < operands; ++k)
      strides[k][0] = 1;
  }
  finish();
  return nullptr;
}

void Loop::finish() {
  if (total == 0)
    return;
  // About 64 pieces when there are few long runs: enough for any core count, and the same for all.
  int64_t length = dims[rank - 1], outer = total / length;
  int64_t want = std::max<int64_t>(1, 64 / std::max<int64_t>(outer, 1));
  pieceElems = std::max<int64_t>((length + want - 1) / want, 2048);
  pieceElems = (pieceElems + 63) / 64 * 64;
  pieces = (length + pieceElems - 1) / pieceElems;
}

Loop::Cursor Loop::at(int64_t run, int skip) const {
  Cursor c;
  for (int i = rank - skip - 1; i >= 0; --i) {
    c.index[i] = run % dims[i];
    run /= dims[i];
    for (int k = 0; k < operands; ++k)
      c.off[k] += c.index[i] * strides[k][i];
  }
  return c;
}

void Loop::next(Cursor &c, int skip) const {
  for (int i = rank - skip - 1; i >= 0; --i) {
    for (int k = 0; k < operands; ++k)
      c.off[k] += strides[k][i];
    if (++c.index[i] < dims[i])
      return;
    for (int k = 0; k < operands; ++k)
      c.off[k] -= dims[i] * strides[k][i];
    c.index[i] = 0;
  }
}

} // namespace ds::cpu
