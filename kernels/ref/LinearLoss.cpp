// SPDX-License-Identifier: Apache-2.0
//
// A matrix product and the cross-entropy of its rows, with gradients, one row after the other. All arithmetic is in
// double; the logits of one row are kept.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <vector>

namespace ds::ref {

namespace {

/// Grows, and is kept for the thread's next launch.
double *buffer(int which, int64_t n) {
  static thread_local std::vector<double> buffers[3];
  std::vector<double> &b = buffers[which];
  if (static_cast<int64_t>(b.size()) < n)
    b.resize(static_cast<size_t>(n));
  return b.data();
}

template <typename T> using Accum = std::conditional_t<std::is_same_v<T, double>, double, float>;

struct Head {
  int64_t inner, classes, wInner, wClass, xStep, ignore;
  const DsTensor *bias; // null: none

  Head(const DsLaunch &l, int biasAt) {
    const DsTensor &x = l.ins[0], &w = l.ins[1];
    bool trans = flag(l, "trans_w");
    inner = x.dims[x.rank - 1], classes = w.dims[trans ? 0 : 1];
    wInner = w.strides[trans ? 1 : 0], wClass = w.strides[trans ? 0 : 1];
    xStep = x.strides[x.rank - 1];
    ignore = attr(l, "ignore_index").i;
    bias = l.numIns > biasAt ? &l.ins[biasAt] : nullptr;
  }
};

/// The label of a row, and whether it is in range.
const char *labelOf(const DsLaunch &l, const Head &h, int64_t offset, int64_t row, int64_t &label) {
  const DsTensor &labels = l.ins[2];
  label = labels.dtype == static_cast<uint8_t>(DType::I64) ? dataOf<int64_t>(labels)[offset]
                                                           : dataOf<int32_t>(labels)[offset];
  if (label == h.ignore || (label >= 0 && label < h.classes))
    return nullptr;
  return message("label %lld of row %lld is not in [0, %lld)", static_cast<long long>(label),
                 static_cast<long long>(row), static_cast<long long>(h.classes));
}

/// Logits of the row of x at `from`, and the logarithm of the sum of their exponentials.
template <typename T>
double rowLse(const DsLaunch &l, const Head &h, const T *from, double *logits) {
  const T *w = dataOf<T>(l.ins[1]);
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t k = 0; k < h.classes; ++k) {
    logits[k] = h.bias ? double(load(dataOf<T>(*h.bias)[k * h.bias->strides[0]])) : 0;
    for (int64_t c = 0; c < h.inner; ++c)
      logits[k] += double(load(from[c * h.xStep])) * load(w[c * h.wInner + k * h.wClass]);
    top = std::fmax(top, logits[k]);
  }
  for (int64_t k = 0; k < h.classes; ++k)
    sum += std::exp(logits[k] - top);
  return top + std::log(sum);
}

/// Walks rows of x, labels and a tensor of x's shape.
Loop<3> rowsOf(const DsTensor &x, const DsTensor &labels, const DsTensor &other) {
  Loop<3> rows;
  for (int i = 0; i < labels.rank; ++i)
    rows.add(labels.dims[i], {x.strides[i], labels.strides[i], other.strides[i]});
  return rows;
}

template <typename T> const char *forward(const DsLaunch &l) {
  const Head h(l, 4);
  double *logits = buffer(0, h.classes), total = 0;
  const char *error = nullptr;
  int64_t row = 0;
  walk(rowsOf(l.ins[0], l.ins[2], l.ins[0]), [&](int64_t x, int64_t y, int64_t) {
    int64_t label = 0;
    if (const char *m = labelOf(l, h, y, row++, label))
      error = error ? error : m;
    else if (label != h.ignore)
      total += rowLse<T>(l, h, dataOf<T>(l.ins[0]) + x, logits) - logits[label];
  });
  *dataOf<Accum<T>>(l.outs[0]) = static_cast<Accum<T>>(total * *dataOf<double>(l.ins[3]));
  return error;
}

template <typename T> const char *backward(const DsLaunch &l) {
  const Head h(l, 5);
  const DsTensor &dx = l.outs[1], &dw = l.outs[2], &dbias = l.outs[3];
  bool trans = flag(l, "trans_w");
  double *logits = buffer(0, h.classes), *sums = buffer(1, h.classes * h.inner),
         *biasSums = buffer(2, h.classes), total = 0, scaled = *dataOf<double>(l.ins[4]);
  std::fill_n(sums, h.classes * h.inner, 0.0);
  std::fill_n(biasSums, h.classes, 0.0);
  const char *error = nullptr;
  int64_t row = 0;
  walk(rowsOf(l.ins[0], l.ins[2], dx), [&](int64_t x, int64_t y, int64_t out) {
    const T *from = dataOf<T>(l.ins[0]) + x, *w = dataOf<T>(l.ins[1]);
    int64_t label = 0;
    if (const char *m = labelOf(l, h, y, row++, label))
      error = error ? error : m;
    bool counts = !error && label != h.ignore;
    double lse = counts ? rowLse<T>(l, h, from, logits) : 0;
    total += counts ? lse - logits[label] : 0;
    for (int64_t k = 0; k < h.classes; ++k) {
      logits[k] = counts ? (std::exp(logits[k] - lse) - (k == label)) * scaled : 0;
      biasSums[k] += logits[k];
    }
    for (int64_t c = 0; c < h.inner; ++c) {
      double dot = 0, v = load(from[c * h.xStep]);
      for (int64_t k = 0; counts && k < h.classes; ++k) {
        dot += logits[k] * load(w[c * h.wInner + k * h.wClass]);
        sums[k * h.inner + c] += logits[k] * v;
      }
      dataOf<T>(dx)[out + c * dx.strides[dx.rank - 1]] = store<T>(dot);
    }
  });
  for (int64_t k = 0; k < h.classes; ++k) {
    for (int64_t c = 0; c < h.inner; ++c)
      dataOf<T>(dw)[c * dw.strides[trans ? 1 : 0] + k * dw.strides[trans ? 0 : 1]] =
          store<T>(sums[k * h.inner + c]);
    if (k < dbias.dims[0]) // empty without a bias
      dataOf<T>(dbias)[k * dbias.strides[0]] = store<T>(biasSums[k]);
  }
  *dataOf<Accum<T>>(l.outs[0]) = static_cast<Accum<T>>(total * *dataOf<double>(l.ins[3]));
  return error;
}

} // namespace

const char *refLinearCrossEntropy(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype,
                       [&](auto tag) { return forward<typename decltype(tag)::Type>(*l); });
}

const char *refLinearCrossEntropyGrad(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype,
                       [&](auto tag) { return backward<typename decltype(tag)::Type>(*l); });
}

} // namespace ds::ref
