// SPDX-License-Identifier: Apache-2.0
//
// Matrix product for builds without oneDNN and for layouts it has no fast path for. Panels of two vectors of
// columns and 256 of the inner axis are packed on the stack; six rows of C are kept in registers. The order
// of an element's sum depends on the inner axis alone.
#include "kernels/cpu/Matmul.h"
#include "kernels/cpu/Parallel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/MatmulOwn.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

constexpr int64_t kInner = 256;

/// R rows of C against a packed panel of k x 2 vectors; w columns of C exist.
template <int R>
static void rowsByPanel(const MatmulShape &s, const float *a, const float *panel, int64_t k,
                        bool first, float *c, int64_t w) {
  F32 d;
  const int64_t N = lanes();
  VF acc[R][2];
  for (int r = 0; r < R; ++r)
    acc[r][0] = acc[r][1] = set(0);
  for (int64_t i = 0; i < k; ++i, panel += 2 * N) {
    const VF b0 = hn::Load(d, panel), b1 = hn::Load(d, panel + N);
    for (int r = 0; r < R; ++r) {
      const VF x = set(a[r * s.am + i * s.ak]);
      acc[r][0] = hn::MulAdd(x, b0, acc[r][0]);
      acc[r][1] = hn::MulAdd(x, b1, acc[r][1]);
    }
  }
  HWY_ALIGN float row[2 * hn::MaxLanes(d)];
  for (int r = 0; r < R; ++r) {
    hn::Store(acc[r][0], d, row);
    hn::Store(acc[r][1], d, row + N);
    float *out = c + r * s.cm;
    for (int64_t j = 0; j < w; ++j)
      out[j * s.cn] = first ? row[j] : out[j * s.cn] + row[j];
  }
}

int64_t panelColumns() { return 2 * lanes(); }

/// Rows [i0, i1) of the panel of columns that starts at j0.
void matmulPanel(const MatmulShape &s, const float *a, const float *b, float *c, int64_t i0,
                 int64_t i1, int64_t j0, bool adds) {
  F32 d;
  const int64_t width = 2 * lanes(), w = std::min(width, s.n - j0);
  HWY_ALIGN float panel[kInner * 2 * hn::MaxLanes(d)];
  for (int64_t k0 = 0; k0 < s.k || k0 == 0; k0 += kInner) {
    const int64_t kc = std::min(kInner, s.k - k0);
    const bool first = k0 == 0 && !adds;
    for (int64_t i = 0; i < kc; ++i) {
      const float *from = b + (k0 + i) * s.bk + j0 * s.bn;
      float *to = panel + i * width;
      for (int64_t j = 0; j < w; ++j)
        to[j] = from[j * s.bn];
      std::fill(to + w, to + width, 0.0f);
    }
    for (int64_t i = i0; i < i1;) {
      const float *rows = a + i * s.am + k0 * s.ak;
      float *out = c + i * s.cm + j0 * s.cn;
      const int64_t left = i1 - i;
      if (left >= 6)
        rowsByPanel<6>(s, rows, panel, kc, first, out, w), i += 6;
      else if (left >= 3)
        rowsByPanel<3>(s, rows, panel, kc, first, out, w), i += 3;
      else
        rowsByPanel<1>(s, rows, panel, kc, first, out, w), i += 1;
    }
  }
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(panelColumns);
HWY_EXPORT(matmulPanel);

void ownMatmul(const MatmulShape &s, const float *a, const float *b, float *c, int threads,
               bool adds) {
  constexpr int64_t kRows = 192;
  const int64_t width = HWY_DYNAMIC_DISPATCH(panelColumns)();
  const int64_t panels = (s.n + width - 1) / width, blocks = (s.m + kRows - 1) / kRows;
  const int64_t each = panels * blocks, items = s.batches() * each;
  auto panel = HWY_DYNAMIC_DISPATCH(matmulPanel);
  parallelFor(threads, items, items * kRows * width + s.m * s.n * s.k / 16,
              [&](int64_t begin, int64_t end) {
                for (int64_t item = begin; item < end; ++item) {
                  int64_t offA = 0, offB = 0, offC = 0, rest = item / each;
                  for (int i = s.batchRank - 1; i >= 0; --i) {
                    const int64_t at = rest % s.batch[i];
                    rest /= s.batch[i];
                    offA += at * s.batchA[i];
                    offB += at * s.batchB[i];
                    offC += at * s.batchC[i];
                  }
                  const int64_t i0 = item % each / panels * kRows;
                  panel(s, a + offA, b + offB, c + offC, i0, std::min(s.m, i0 + kRows),
                        item % panels * width, adds);
                }
              });
}

} // namespace ds::cpu
#endif
