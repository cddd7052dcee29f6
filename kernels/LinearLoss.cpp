// SPDX-License-Identifier: Apache-2.0
#include "kernels/LinearLoss.h"

#include "kernels/CudaWork.h"

#include <algorithm>

namespace ds {

// A quarter of the rows, so that there is a quarter of the logits, within 64 MiB; at least so many that products are fast. In 16
// bits an eighth in any case: of a few hundred rows, dx has too few tiles for a device that computes in these. 16-bit logits in one
// chunk are smaller than the f32 sums of dw that more chunks need, up to some number of rows.
LinearLossShape linearLossShape(const DsLaunch &l, bool isGradient, DType type) {
  constexpr int64_t kFewest = 32, kBytes = 64 << 20;
  const DsTensor &x = l.ins[0], &w = l.ins[1];
  LinearLossShape s;
  s.transW = flag(l, "trans_w");
  s.isGradient = isGradient;
  s.ignore = attr(l, "ignore_index").i;
  s.rows = elems(l.ins[2]);
  s.inner = x.dims[x.rank - 1];
  s.classes = w.dims[s.transW ? 0 : 1];
  int inverses = isGradient ? 2 : 1;
  s.biasAt = l.numIns > 3 + inverses ? 3 + inverses : -1;
  auto alignUp = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  auto aligned = [&](int64_t n) { return alignUp(n, kFewest); };
  s.stride = alignUp(s.classes, s.classes < 512 ? 8 : 64);
  int64_t most = kBytes / std::max<int64_t>(1, s.stride * byteSize(type)) / kFewest * kFewest;
  if (byteSize(type) == 2)
    most = std::max(most, aligned(s.rows / 8));
  s.chunk = std::min({s.rows, aligned((s.rows + 3) / 4), std::max(kFewest, most)});
  bool narrow = isGradient && byteSize(type) == 2;
  if (narrow && s.rows <= s.chunk + 2 * s.inner)
    s.chunk = s.rows;
  s.hasSums = narrow && s.chunk < s.rows;
  return s;
}

MatmulShape LinearLossShape::product(LossProduct role, int64_t m) const {
  const int64_t c = inner, v = classes, wInner = transW ? 1 : v, wClass = transW ? c : 1;
  MatmulShape o;
  auto set = [&](int64_t left, int64_t between, int64_t right, int64_t stride) {
    o.m = left, o.k = between, o.n = right, o.cm = stride, o.cn = 1;
  };
  if (role == LossProduct::Logits) { // x w
    set(m, c, v, stride);
    o.am = c, o.ak = 1, o.bk = wInner, o.bn = wClass;
  } else if (role == LossProduct::Dx) { // p w^T
    set(m, v, c, c);
    o.am = stride, o.ak = 1, o.bk = wClass, o.bn = wInner;
  } else if (transW) { // p^T x
    set(v, m, c, c);
    o.am = 1, o.ak = stride, o.bk = c, o.bn = 1;
  } else { // x^T p
    set(c, m, v, v);
    o.am = 1, o.ak = c, o.bk = stride, o.bn = 1;
  }
  return o;
}

LinearLossWork::LinearLossWork(const LinearLossShape &s, DType type) {
  auto after = [](size_t at, int64_t n, int64_t size) {
    return at + static_cast<size_t>((n * size + 255) / 256 * 256);
  };
  terms = after(chunk, s.chunk * s.stride, byteSize(type));
  columns = after(terms, s.chunk + 1, sizeof(double));
  sums = after(columns, s.wantsBias() ? s.classes : 0, sizeof(double));
  products = after(sums, s.hasSums ? s.classes * s.inner : 0, sizeof(float));
}

size_t cudaLinearLossWork(const DsLaunch &l, bool isGradient) {
  auto type = static_cast<DType>(l.ins[0].dtype);
  LinearLossShape s = linearLossShape(l, isGradient, type);
  int64_t most = std::max({s.chunk * s.stride, s.chunk * s.inner, s.classes * s.inner});
  return LinearLossWork(s, type).products + cudaProductWork(most);
}

} // namespace ds
