// SPDX-License-Identifier: Apache-2.0
//
// The sizes of an attention launch and the strides of its operands, whatever their order of axes.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

namespace ds {

/// Strides of batch, head, row and element. Of a mask: batch, head, query and key, 0 where it is repeated.
struct AttentionAxes {
  int64_t batch, head, row, element;
};

struct AttentionShape {
  int64_t batch, heads, groups, queries, keys, depth, width;
  bool causal, boolMask;
  double scale;
  AttentionAxes q, k, v, o, mask;
  const DsTensor *maskTensor; // null: none

  /// The head of k and v that head h of q reads.
  int64_t groupOf(int64_t h) const { return h / (heads / groups); }
  /// How many keys query t sees, but for the mask.
  int64_t seen(int64_t t) const { return causal && t + 1 < keys ? t + 1 : keys; }
};

inline AttentionAxes attentionAxes(const DsTensor &t, bool rowsFirst) {
  int head = rowsFirst ? 2 : 1, row = rowsFirst ? 1 : 2;
  return {t.strides[0], t.strides[head], t.strides[row], t.strides[3]};
}

/// Operand `first` is q, o a tensor laid out as the result, operand `mask` the mask if there is one.
inline AttentionShape attentionShape(const DsLaunch &l, int first, const DsTensor &o, int mask) {
  const DsTensor &q = l.ins[first], &k = l.ins[first + 1], &v = l.ins[first + 2];
  bool rowsFirst = flag(l, "rows_first");
  int head = rowsFirst ? 2 : 1, row = rowsFirst ? 1 : 2;
  AttentionShape s{};
  s.batch = q.dims[0], s.heads = q.dims[head], s.groups = k.dims[head];
  s.queries = q.dims[row], s.keys = k.dims[row], s.depth = q.dims[3], s.width = v.dims[3];
  s.causal = flag(l, "causal");
  s.scale = attr(l, "scale").f;
  s.q = attentionAxes(q, rowsFirst), s.k = attentionAxes(k, rowsFirst);
  s.v = attentionAxes(v, rowsFirst), s.o = attentionAxes(o, rowsFirst);
  if (l.numIns > mask) {
    const DsTensor &m = l.ins[mask];
    s.maskTensor = &m;
    s.boolMask = m.dtype == static_cast<uint8_t>(DType::Bool);
    int64_t strides[4] = {};
    for (int32_t i = 0; i < m.rank; ++i)
      strides[4 - m.rank + i] = m.dims[i] == 1 ? 0 : m.strides[i];
    s.mask = {strides[0], strides[1], strides[2], strides[3]};
  }
  return s;
}

} // namespace ds
