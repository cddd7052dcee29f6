// SPDX-License-Identifier: Apache-2.0
//
// Gradients of shape, movement and indexing ops.
#include "passes/Grad.h"

#include <algorithm>

namespace ds {

using List = std::vector<int64_t>;

Status gradReshape(GradCtx &c) {
  c.set(0, c.make(OpKind::Reshape, {c.dy}, 0, {{"dims", c.x()->type.dims}}));
  return {};
}

Status gradTranspose(GradCtx &c) {
  List perm = c.op.attrs.list("perm"), inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[perm[i]] = static_cast<int64_t>(i);
  c.set(0, c.make(OpKind::Transpose, {c.dy}, 0, {{"perm", inverse}}));
  return {};
}

Status gradBroadcastTo(GradCtx &c) {
  c.set(0, c.dy);
  return {};
}

// Slice with strides is undone by padding with strides - 1 zeros in between.
Status gradSlice(GradCtx &c) {
  const List &dims = c.x()->type.dims, &out = c.y()->type.dims;
  List starts = c.op.attrs.list("starts"), strides = c.op.attrs.list("strides");
  List high(dims.size()), interior(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t covered = out[i] == 0 ? 0 : (out[i] - 1) * strides[i] + 1;
    high[i] = dims[i] - starts[i] - covered;
    interior[i] = strides[i] - 1;
  }
  c.set(0,
        c.make(OpKind::Pad, {c.dy}, 0, {{"low", starts}, {"high", high}, {"interior", interior}}));
  return {};
}

// Cropped edges come back as zeros; then the operand's elements are every (interior + 1)-th.
Status gradPad(GradCtx &c) {
  const List &dims = c.x()->type.dims;
  List low = c.op.attrs.list("low"), high = c.op.attrs.list("high");
  List interior = c.op.attrs.list("interior");
  size_t n = dims.size();
  List backLow(n), backHigh(n), zeros(n), starts(n), limits(n), strides(n);
  bool cropped = false;
  for (size_t i = 0; i < n; ++i) {
    backLow[i] = std::max<int64_t>(-low[i], 0);
    backHigh[i] = std::max<int64_t>(-high[i], 0);
    cropped |= backLow[i] || backHigh[i];
    starts[i] = std::max<int64_t>(low[i], 0);
    strides[i] = interior[i] + 1;
    limits[i] = starts[i] + (dims[i] == 0 ? 0 : (dims[i] - 1) * strides[i] + 1);
  }
  Value *g = c.dy;
  if (cropped)
    g = c.make(OpKind::Pad, {g}, 0, {{"low", backLow}, {"high", backHigh}, {"interior", zeros}});
  c.set(0, c.make(OpKind::Slice, {g}, 0,
                  {{"starts", starts}, {"limits", limits}, {"strides", strides}}));
  return {};
}

Status gradReverse(GradCtx &c) {
  c.set(0, c.make(OpKind::Reverse, {c.dy}, 0, {{"axes", c.op.attrs.list("axes")}}));
  return {};
}

Status gradConcat(GradCtx &c) {
  int64_t rank = c.y()->type.rank(), axis = c.op.attrs.i("axis");
  axis += axis < 0 ? rank : 0;
  List starts(rank, 0), limits = c.y()->type.dims, strides(rank, 1);
  int64_t at = 0;
  for (int i = 0; i < static_cast<int>(c.op.operands.size()); ++i) {
    int64_t extent = c.x(i)->type.dims[axis];
    starts[axis] = at;
    limits[axis] = at += extent;
    if (c.wants(i))
      c.set(i, c.make(OpKind::Slice, {c.dy}, i,
                      {{"starts", starts}, {"limits", limits}, {"strides", strides}}));
  }
  return {};
}

Status gradGather(GradCtx &c) {
  c.set(0, c.make(OpKind::GatherGrad, {c.dy, c.x(1)}, 0,
                  {{"axis", c.op.attrs.i("axis")}, {"dims", c.x()->type.dims}}));
  return {};
}

Status gradTrilu(GradCtx &c) {
  c.set(0, c.make(OpKind::Trilu, {c.dy}, 0,
                  {{"upper", c.op.attrs.flag("upper")}, {"k", c.op.attrs.i("k")}}));
  return {};
}

} // namespace ds
