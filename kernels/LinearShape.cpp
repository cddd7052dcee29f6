// SPDX-License-Identifier: Apache-2.0
#include "kernels/LinearShape.h"

#include "kernels/Kernel.h"

namespace ds {

// Operands come first; the result is the last tensor.
DsTensor &InnerLaunch::add(const DsLaunch &l, Source s, bool asOut) {
  auto at = static_cast<size_t>(numIns);
  sources[at] = s;
  tensors[at] = s.isOut ? l.outs[s.index] : l.ins[s.index];
  tensors[at].data = nullptr;
  numIns += !asOut;
  return tensors[at];
}

// [.., K] as [rows, K].
const char *InnerLaunch::addRows(const DsLaunch &l, Source s) {
  auto at = static_cast<size_t>(numIns);
  DsTensor &t = add(l, s, false);
  int64_t rows = 1, step = 0;
  for (int i = t.rank - 2; i >= 0; --i) {
    if (t.dims[i] == 1)
      continue;
    if (rows == 1)
      step = t.strides[i];
    else if (t.strides[i] != rows * step)
      return "an operand is not row-major";
    rows *= t.dims[i];
  }
  int64_t columns = t.dims[t.rank - 1];
  dims[at] = {rows, columns};
  strides[at] = {rows == 1 ? columns : step, t.strides[t.rank - 1]};
  t.dims = dims[at].data();
  t.strides = strides[at].data();
  t.rank = 2;
  return nullptr;
}

void InnerLaunch::flag(const char *name, bool value) {
  DsAttr &a = attrs[static_cast<size_t>(numAttrs++)];
  a = {};
  a.name = name;
  a.kind = 'b';
  a.i = value;
}

void InnerLaunch::finish(const DsLaunch &l) {
  launch = l;
  launch.ins = tensors.data();
  launch.outs = &tensors[static_cast<size_t>(numIns)];
  launch.numIns = numIns;
  launch.numOuts = 1;
  launch.attrs = attrs.data();
  launch.numAttrs = numAttrs;
}

void InnerLaunch::product(const DsLaunch &l) {
  add(l, {false, 0}, false);
  add(l, {false, 1}, false);
  add(l, {true, 0}, true);
  flag("trans_a", false);
  flag("trans_b", ds::flag(l, "trans_b"));
  finish(l);
}

const char *InnerLaunch::weightGradient(const DsLaunch &l) {
  int first = ds::flag(l, "trans_b") ? 1 : 0; // dw = x^T dy, or dy^T x
  for (int i : {first, 1 - first})
    if (const char *message = addRows(l, {false, i}))
      return message;
  add(l, {true, 0}, true);
  flag("trans_a", true);
  flag("trans_b", false);
  finish(l);
  return nullptr;
}

const char *InnerLaunch::biasGradient(const DsLaunch &l) {
  if (const char *message = addRows(l, {false, 1}))
    return message;
  add(l, {true, 1}, true);
  flag("keepdims", false);
  DsAttr &a = attrs[static_cast<size_t>(numAttrs++)];
  a = {};
  a.name = "axes";
  a.kind = 'l';
  a.list = axes;
  a.count = 1;
  finish(l);
  return nullptr;
}

void InnerLaunch::slope(const DsLaunch &l) {
  add(l, {true, 0}, false);
  add(l, {false, 2}, false);
  add(l, {true, 0}, true);
  flag("tanh", ds::flag(l, "tanh"));
  finish(l);
}

void InnerLaunch::addBias(const DsLaunch &l) {
  add(l, {true, 0}, false);
  add(l, {false, 2}, false);
  add(l, {true, 0}, true);
  finish(l);
}

const DsLaunch &InnerLaunch::at(const DsLaunch &l) {
  for (size_t i = 0; i <= static_cast<size_t>(numIns); ++i)
    tensors[i].data = (sources[i].isOut ? l.outs : l.ins)[sources[i].index].data;
  launch.work = l.work;
  launch.workBytes = l.workBytes;
  launch.stream = l.stream;
  launch.fault = l.fault;
  launch.id = l.id;
  return launch;
}

} // namespace ds
