// SPDX-License-Identifier: Apache-2.0
//
// Reductions over one contiguous row of f32, per Highway target. Sums run in four f32 vectors over blocks of
// 2048 elements whose totals are added in f64: the same order wherever the row lies.
#include "kernels/cpu/Math-inl.h"

#if defined(DS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_CPU_ROWS_INL_H_
#undef DS_CPU_ROWS_INL_H_
#else
#define DS_CPU_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

/// Elements [i, i + m) of p; if m < lanes(), the other lanes hold pad.
HWY_INLINE VF loadAt(const float *p, int64_t i, int64_t m, float pad) {
  return m == lanes() ? hn::LoadU(F32(), p + i) : loadPart(p + i, m, pad);
}
HWY_INLINE void storeAt(VF v, float *p, int64_t i, int64_t m) {
  if (m == lanes())
    hn::StoreU(v, F32(), p + i);
  else
    storePart(v, p + i, m);
}

/// The sum of term(i, m) over a row of n; a term's lanes from m on must be zero.
template <class Term> HWY_INLINE double rowSum(int64_t n, const Term &term) {
  const int64_t N = lanes();
  double total = 0;
  for (int64_t from = 0; from < n; from += 2048) {
    const int64_t end = from + 2048 < n ? from + 2048 : n;
    VF a = set(0), b = a, c = a, d = a;
    int64_t i = from;
    for (; i + 4 * N <= end; i += 4 * N) {
      a = hn::Add(a, term(i, N));
      b = hn::Add(b, term(i + N, N));
      c = hn::Add(c, term(i + 2 * N, N));
      d = hn::Add(d, term(i + 3 * N, N));
    }
    for (; i + N <= end; i += N)
      a = hn::Add(a, term(i, N));
    if (i < end)
      b = hn::Add(b, term(i, end - i));
    total += sumLanes(hn::Add(hn::Add(a, b), hn::Add(c, d)));
  }
  return total;
}

/// As rowSum, over two terms at once: term(i, m, first, second) sets both.
template <class Term>
HWY_INLINE void rowSum2(int64_t n, const Term &term, double &first, double &second) {
  const int64_t N = lanes();
  first = second = 0;
  for (int64_t from = 0; from < n; from += 2048) {
    const int64_t end = from + 2048 < n ? from + 2048 : n;
    VF a = set(0), b = a, c = a, d = a, u, v;
    int64_t i = from;
    for (; i + 2 * N <= end; i += 2 * N) {
      term(i, N, u, v);
      a = hn::Add(a, u);
      b = hn::Add(b, v);
      term(i + N, N, u, v);
      c = hn::Add(c, u);
      d = hn::Add(d, v);
    }
    for (; i < end; i += N) {
      term(i, end - i < N ? end - i : N, u, v);
      a = hn::Add(a, u);
      b = hn::Add(b, v);
    }
    first += sumLanes(hn::Add(a, c));
    second += sumLanes(hn::Add(b, d));
  }
}

/// The largest (kMax) or smallest element of a non-empty row; NaN if there is one.
template <bool kMax> HWY_INLINE float rowExtreme(const float *x, int64_t n) {
  const int64_t N = lanes();
  F32 d;
  VF a = hn::Set(d, x[0]), b = a, c = a, e = a;
  auto nan = hn::IsNaN(a);
  auto better = [](VF p, VF q) HWY_ATTR { return kMax ? hn::Max(p, q) : hn::Min(p, q); };
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    VF p = hn::LoadU(d, x + i), q = hn::LoadU(d, x + i + N), r = hn::LoadU(d, x + i + 2 * N),
       s = hn::LoadU(d, x + i + 3 * N);
    a = better(a, p);
    b = better(b, q);
    c = better(c, r);
    e = better(e, s);
    nan =
        hn::Or(nan, hn::Or(hn::Or(hn::IsNaN(p), hn::IsNaN(q)), hn::Or(hn::IsNaN(r), hn::IsNaN(s))));
  }
  for (; i < n; i += N) {
    VF p = loadAt(x, i, n - i < N ? n - i : N, x[0]);
    a = better(a, p);
    nan = hn::Or(nan, hn::IsNaN(p));
  }
  if (!hn::AllFalse(d, nan))
    return __builtin_nanf("");
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(better(better(a, b), better(c, e)), d, buffer);
  float m = buffer[0];
  for (int64_t k = 1; k < N; ++k)
    m = kMax ? (buffer[k] > m ? buffer[k] : m) : (buffer[k] < m ? buffer[k] : m);
  return m;
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
