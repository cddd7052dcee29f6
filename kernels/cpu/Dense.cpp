// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Dense.h"

namespace ds::cpu {

size_t Staging::bytes(const DsLaunch &l) {
  size_t n = 0;
  for (int i = 0; i < l.numIns + l.numOuts; ++i) {
    const DsTensor &t = i < l.numIns ? l.ins[i] : l.outs[i - l.numIns];
    if (!isRowMajor(t))
      n += alignUp(static_cast<size_t>(elems(t) * elemBytes(t)));
  }
  return n;
}

const char *Staging::add(const DsLaunch &l, const DsTensor &t, int i, bool isOut, size_t &at) {
  if (isRowMajor(t))
    return nullptr;
  Staged s;
  s.index = i;
  s.at = at;
  int64_t n = 1;
  for (int k = t.rank - 1; k >= 0; --k) {
    s.dense[k] = n;
    n *= t.dims[k];
  }
  const int64_t *dense = s.dense.data();
  const int64_t *dst = isOut ? t.strides : dense, *src = isOut ? dense : t.strides;
  if (const char *message = s.copy.init(t.rank, t.dims, dst, src, elemBytes(t), l.threads))
    return message;
  at += alignUp(static_cast<size_t>(n * elemBytes(t)));
  (isOut ? stagedOuts : stagedIns).push_back(s);
  return nullptr;
}

const char *Staging::init(const DsLaunch &l, size_t at) {
  ins.resize(static_cast<size_t>(l.numIns));
  outs.resize(static_cast<size_t>(l.numOuts));
  for (int i = 0; i < l.numIns; ++i)
    if (const char *message = add(l, l.ins[i], i, false, at))
      return message;
  for (int i = 0; i < l.numOuts; ++i)
    if (const char *message = add(l, l.outs[i], i, true, at))
      return message;
  return nullptr;
}

const DsLaunch &Staging::begin(const DsLaunch &l) {
  dense = l;
  dense.ins = ins.data();
  dense.outs = outs.data();
  std::copy(l.ins, l.ins + l.numIns, ins.begin());
  std::copy(l.outs, l.outs + l.numOuts, outs.begin());
  for (const Staged &s : stagedIns) {
    ins[s.index].strides = s.dense.data();
    if (l.work) {
      ins[s.index].data = workAt<char>(l, s.at);
      s.copy.run(ins[s.index].data, l.ins[s.index].data);
    }
  }
  for (const Staged &s : stagedOuts) {
    outs[s.index].strides = s.dense.data();
    if (l.work)
      outs[s.index].data = workAt<char>(l, s.at);
  }
  return dense;
}

void Staging::end(const DsLaunch &l) const {
  for (const Staged &s : stagedOuts)
    s.copy.run(l.outs[s.index].data, outs[s.index].data);
}

} // namespace ds::cpu
