// SPDX-License-Identifier: Apache-2.0
//
// Losses and their gradients. Row terms are computed in double and added in row order; the sum times inv is
// rounded once.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

// Walks the rows of logits[..,V] with two tensors of the rows' shape (labels and lse) and one more of logits'
// shape (for the gradient), calling f(logits, labels, lse, other).
static Loop<4> rowLoop(const DsTensor &logits, const DsTensor &labels, const DsTensor &lse,
                       const DsTensor &other) {
  Loop<4> loop;
  for (int i = 0; i < labels.rank; ++i)
    loop.add(labels.dims[i],
             {logits.strides[i], labels.strides[i], lse.strides[i], other.strides[i]});
  return loop;
}

static int64_t labelAt(const DsTensor &labels, int64_t at) {
  return labels.dtype == static_cast<uint8_t>(DType::I64) ? dataOf<int64_t>(labels)[at]
                                                          : dataOf<int32_t>(labels)[at];
}

static const char *badLabel(int64_t label, int64_t row, int64_t classes) {
  return message("label %lld of row %lld is not in [0, %lld)", static_cast<long long>(label),
                 static_cast<long long>(row), static_cast<long long>(classes));
}

template <typename T> using Accum = std::conditional_t<std::is_same_v<T, double>, double, float>;

const char *refCrossEntropy(const DsLaunch *l, void *) {
  const DsTensor &logits = l->ins[0], &labels = l->ins[1], &lse = l->outs[1];
  double inv = *dataOf<double>(l->ins[2]);
  int64_t ignore = attr(*l, "ignore_index").i;
  int64_t classes = logits.dims[logits.rank - 1], step = logits.strides[logits.rank - 1];
  return dispatchFloat(logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const char *error = nullptr;
    double total = 0;
    int64_t row = 0;
    walk(rowLoop(logits, labels, lse, logits), [&](int64_t x, int64_t y, int64_t s, int64_t) {
      const T *from = dataOf<T>(logits) + x;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < classes; ++k)
        top = std::fmax(top, load(from[k * step]));
      for (int64_t k = 0; k < classes; ++k)
        sum += std::exp(load(from[k * step]) - top);
      double rowLse = top + std::log(sum);
      dataOf<Accum<T>>(lse)[s] = static_cast<Accum<T>>(rowLse);
      int64_t label = labelAt(labels, y);
      if (label != ignore) {
        if (label >= 0 && label < classes)
          total += rowLse - load(from[label * step]);
        else if (!error)
          error = badLabel(label, row, classes);
      }
      ++row;
    });
    *dataOf<Accum<T>>(l->outs[0]) = static_cast<Accum<T>>(total * inv);
    return error;
  });
}

// (softmax - one at the label) * inv; zero in ignored rows.
const char *refCrossEntropyGrad(const DsLaunch *l, void *) {
  const DsTensor &logits = l->ins[0], &labels = l->ins[1], &lse = l->ins[2], &out = l->outs[0];
  double inv = *dataOf<double>(l->ins[3]);
  int64_t ignore = attr(*l, "ignore_index").i, classes = logits.dims[logits.rank - 1];
  int64_t stepX = logits.strides[logits.rank - 1], stepOut = out.strides[out.rank - 1];
  return dispatchFloat(logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const char *error = nullptr;
    int64_t row = 0;
    walk(rowLoop(logits, labels, lse, out), [&](int64_t x, int64_t y, int64_t s, int64_t o) {
      int64_t label = labelAt(labels, y);
      bool ignored = label == ignore;
      if (!ignored && (label < 0 || label >= classes) && !error)
        error = badLabel(label, row, classes);
      double rowLse = dataOf<Accum<T>>(lse)[s];
      for (int64_t k = 0; k < classes; ++k) {
        double p = std::exp(load(dataOf<T>(logits)[x + k * stepX]) - rowLse);
        dataOf<T>(out)[o + k * stepOut] = store<T>(ignored ? 0.0 : (p - (k == label)) * inv);
      }
      ++row;
    });
    return error;
  });
}

const char *refMse(const DsLaunch *l, void *) {
  const DsTensor &a = l->ins[0], &b = l->ins[1];
  double inv = *dataOf<double>(l->ins[2]);
  return dispatchFloat(a.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    double sum = 0;
    walk(loopOf(a, b), [&](int64_t i, int64_t j) {
      double d = double(load(dataOf<T>(a)[i])) - load(dataOf<T>(b)[j]);
      sum += d * d;
    });
    *dataOf<Accum<T>>(l->outs[0]) = static_cast<Accum<T>>(sum * inv);
    return nullptr;
  });
}

const char *refMseGrad(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &a = l->ins[0], &b = l->ins[1];
  double inv = *dataOf<double>(l->ins[2]);
  return dispatchFloat(a.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    walk(loopOf(out, a, b), [&](int64_t o, int64_t i, int64_t j) {
      double d = double(load(dataOf<T>(a)[i])) - load(dataOf<T>(b)[j]);
      dataOf<T>(out)[o] = store<T>(2 * d * inv);
    });
    return nullptr;
  });
}

} // namespace ds::ref
