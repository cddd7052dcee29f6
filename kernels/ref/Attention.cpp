// SPDX-License-Identifier: Apache-2.0
//
// Attention, one query after the other. All arithmetic is in double.
#include "kernels/AttentionShape.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <vector>

namespace ds::ref {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// Grows, and is kept for the thread's next launch.
double *buffer(int which, int64_t n) {
  static thread_local std::vector<double> buffers[3];
  std::vector<double> &b = buffers[which];
  if (static_cast<int64_t>(b.size()) < n)
    b.resize(static_cast<size_t>(n));
  return b.data();
}

template <typename T>
double at(const DsTensor &t, const AttentionAxes &a, int64_t b, int64_t h, int64_t row, int64_t i) {
  return load(dataOf<T>(t)[b * a.batch + h * a.head + row * a.row + i * a.element]);
}

/// scores[j] = scale * q k_j + mask for the keys that query t sees.
template <typename T>
void scoresOf(const AttentionShape &s, const DsTensor &q, const DsTensor &k, int64_t b, int64_t h,
              int64_t t, double *scores) {
  for (int64_t j = 0; j < s.seen(t); ++j) {
    double dot = 0;
    for (int64_t d = 0; d < s.depth; ++d)
      dot += at<T>(q, s.q, b, h, t, d) * at<T>(k, s.k, b, s.groupOf(h), j, d);
    scores[j] = s.scale * dot;
    if (s.boolMask)
      scores[j] = at<Bool>(*s.maskTensor, s.mask, b, h, t, j) ? scores[j] : kHidden;
    else if (s.maskTensor)
      scores[j] += at<T>(*s.maskTensor, s.mask, b, h, t, j);
  }
}

template <typename T> using Accum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T> void attention(const DsLaunch &l) {
  const DsTensor &q = l.ins[0], &k = l.ins[1], &v = l.ins[2], &o = l.outs[0], &lse = l.outs[1];
  AttentionShape s = attentionShape(l, 0, o, 3);
  double *p = buffer(0, s.keys);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.queries; ++t) {
        scoresOf<T>(s, q, k, b, h, t, p);
        double top = kHidden, sum = 0;
        bool sees = false;
        for (int64_t j = 0; j < s.seen(t); ++j) {
          top = std::fmax(top, p[j]);
          sees |= p[j] != kHidden;
        }
        for (int64_t j = 0; sees && j < s.seen(t); ++j)
          sum += p[j] = std::exp(p[j] - top);
        for (int64_t e = 0; e < s.width; ++e) {
          double dot = 0;
          for (int64_t j = 0; sees && j < s.seen(t); ++j)
            dot += p[j] * at<T>(v, s.v, b, s.groupOf(h), j, e);
          dataOf<T>(o)[b * s.o.batch + h * s.o.head + t * s.o.row + e * s.o.element] =
              store<T>(sees ? dot / sum : 0.0);
        }
        dataOf<Accum<T>>(lse)[b * lse.strides[0] + h * lse.strides[1] + t * lse.strides[2]] =
            static_cast<Accum<T>>(sees ? top + std::log(sum) : kHidden);
      }
}

// With p = exp(scores - lse) and ds = p * (do v^T - do o):
// dq = scale * ds k, dk = scale * ds^T q, dv = p^T do.
template <typename T> void attentionGrad(const DsLaunch &l) {
  const DsTensor &dout = l.ins[0], &q = l.ins[1], &k = l.ins[2], &v = l.ins[3], &o = l.ins[4],
                 &lse = l.ins[5];
  bool rowsFirst = flag(l, "rows_first");
  AttentionShape s = attentionShape(l, 1, o, 6);
  AttentionAxes dO = attentionAxes(dout, rowsFirst), dQ = attentionAxes(l.outs[0], rowsFirst),
                dK = attentionAxes(l.outs[1], rowsFirst), dV = attentionAxes(l.outs[2], rowsFirst);
  double *p = buffer(0, s.keys), *dk = buffer(1, s.keys * s.depth),
         *dv = buffer(2, s.keys * s.width);
  auto put = [](const DsTensor &t, const AttentionAxes &a, int64_t b, int64_t h, int64_t row,
                int64_t i, double x) {
    dataOf<T>(t)[b * a.batch + h * a.head + row * a.row + i * a.element] = store<T>(x);
  };
  auto head = [&](int64_t b, int64_t h) {
    int64_t group = s.groupOf(h);
    for (int64_t t = 0; t < s.queries; ++t) {
      scoresOf<T>(s, q, k, b, h, t, p);
      double rowLse = dataOf<Accum<T>>(
                 lse)[b * lse.strides[0] + h * lse.strides[1] + t * lse.strides[2]],
             delta = 0;
      for (int64_t e = 0; e < s.width; ++e)
        delta += at<T>(dout, dO, b, h, t, e) * at<T>(o, s.o, b, h, t, e);
      for (int64_t j = 0; j < s.seen(t); ++j) {
        bool sees = p[j] != kHidden && rowLse != kHidden;
        double prob = sees ? std::exp(p[j] - rowLse) : 0, dot = 0;
        for (int64_t e = 0; e < s.width; ++e) {
          double g = at<T>(dout, dO, b, h, t, e);
          dot += g * at<T>(v, s.v, b, group, j, e);
          dv[j * s.width + e] += prob * g;
        }
        p[j] = s.scale * prob * (dot - delta);
        for (int64_t d = 0; d < s.depth; ++d)
          dk[j * s.depth + d] += p[j] * at<T>(q, s.q, b, h, t, d);
      }
      for (int64_t d = 0; d < s.depth; ++d) {
        double dot = 0;
        for (int64_t j = 0; j < s.seen(t); ++j)
          dot += p[j] * at<T>(k, s.k, b, group, j, d);
        put(l.outs[0], dQ, b, h, t, d, dot);
      }
    }
  };
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g) {
      std::fill_n(dk, s.keys * s.depth, 0.0);
      std::fill_n(dv, s.keys * s.width, 0.0);
      for (int64_t h = g * (s.heads / s.groups); h < (g + 1) * (s.heads / s.groups); ++h)
        head(b, h);
      for (int64_t j = 0; j < s.keys; ++j) {
        for (int64_t d = 0; d < s.depth; ++d)
          put(l.outs[1], dK, b, g, j, d, dk[j * s.depth + d]);
        for (int64_t e = 0; e < s.width; ++e)
          put(l.outs[2], dV, b, g, j, e, dv[j * s.width + e]);
      }
    }
}

} // namespace

const char *refAttention(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype, [&](auto tag) -> const char * {
    attention<typename decltype(tag)::Type>(*l);
    return nullptr;
  });
}

const char *refAttentionGrad(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype, [&](auto tag) -> const char * {
    attentionGrad<typename decltype(tag)::Type>(*l);
    return nullptr;
  });
}

} // namespace ds::ref
