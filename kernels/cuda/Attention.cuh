// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of attention share: their arguments, and what a score is.
#pragma once

#include "kernels/AttentionShape.h"
#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

/// What a kernel gets by value.
template <typename T> struct AttentionArgs {
  AttentionShape s;
  const T *q, *k, *v, *o, *dO;
  const T *mask;
  const Bool *seen;
  T *out, *dq, *dk, *dv;
  Wide<T> *lse;
  AttentionAxes lseAxes, dOAxes, dqAxes, dkAxes, dvAxes;
};

/// The score of query t and key j from their product; -inf where it is hidden or beyond the end.
template <typename T, typename V>
__device__ V scoreOf(const AttentionArgs<T> &p, V dot, int64_t b, int64_t h, int64_t t, int64_t j) {
  const AttentionShape &s = p.s;
  const V none = -static_cast<V>(INFINITY);
  if (t >= s.queries || j >= s.keys || (s.causal && j > t))
    return none;
  int64_t at = b * s.mask.batch + h * s.mask.head + t * s.mask.row + j * s.mask.element;
  if (p.seen && !p.seen[at].bits)
    return none;
  dot *= static_cast<V>(s.scale);
  return p.mask ? dot + static_cast<V>(value(p.mask[at])) : dot;
}

/// Where the lse of query t of head h lies.
template <typename T>
__device__ Wide<T> *lseAt(const AttentionArgs<T> &p, int64_t b, int64_t h, int64_t t) {
  return p.lse + b * p.lseAxes.batch + h * p.lseAxes.head + t * p.lseAxes.row;
}

/// Whether tensor cores take heads of 16-bit elements: rows fit registers, and rows are counted in 32 bits.
inline bool fitsTensorCores(const AttentionShape &s) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return std::max(s.depth, s.width) <= 128 && s.queries <= kMost && s.keys <= kMost &&
         s.heads / std::max<int64_t>(s.groups, 1) * s.queries <= kMost;
}
template <typename T> const char *attentionMma(const DsLaunch &l, const AttentionArgs<T> &p);
template <typename T> const char *attentionGradMma(const DsLaunch &l, const AttentionArgs<T> &p);

} // namespace ds::cuda
