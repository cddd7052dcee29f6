// SPDX-License-Identifier: Apache-2.0
//
// Losses and their gradients. Probabilities are not stored: the gradient makes them again from the logits and each row's log
// of the sum of exponentials. Sums over rows are in double, in one fixed order.
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Pack.cuh"

namespace ds::cuda {

namespace {

struct Labels {
  const void *p;
  bool wide;
  int64_t ignore, classes;
  DsFault *fault;
  int32_t id;
  __device__ int64_t at(int64_t row) const {
    return wide ? static_cast<const int64_t *>(p)[row] : static_cast<const int32_t *>(p)[row];
  }
  /// Counts in the loss; a label that is neither a class nor ignored is a fault.
  __device__ bool counts(int64_t label) const {
    if (label == ignore)
      return false;
    if (label >= 0 && label < classes)
      return true;
    setFault(fault, id, kBadLabel, label, classes);
    return false;
  }
};

template <typename T>
__global__ void lseKernel(Wide<T> *lse, const T *logits, int64_t rows, int64_t classes) {
  using A = Wide<T>;
  const bool wide = isPacked(logits);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *from = logits + r * classes;
    A top = -INFINITY, sum = 0;
    readRows(
        classes, wide, [&](int64_t, A v) { top = v > top ? v : top; }, from);
    top = overBlock<Max>(top);
    readRows(
        classes, wide, [&](int64_t, A v) { sum += exp(v - top); }, from);
    sum = overBlock<Sum>(sum);
    if (threadIdx.x == 0)
      lse[r] = top + static_cast<A>(log(sum));
  }
}

// One block, so that the order of the sum is fixed.
template <typename T>
__global__ void lossKernel(Wide<T> *loss, const Wide<T> *lse, const T *logits, Labels labels,
                           const double *inv, int64_t rows) {
  double sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
    if (int64_t label = labels.at(r); labels.counts(label))
      sum += static_cast<double>(lse[r]) -
             static_cast<double>(value(logits[r * labels.classes + label]));
  sum = overBlock<Sum>(sum);
  if (threadIdx.x == 0)
    *loss = static_cast<Wide<T>>(sum * *inv);
}

// (softmax - one at the label) * inv; zero in rows that do not count.
template <typename T>
__global__ void lossGradKernel(T *dx, const T *logits, Labels labels, const Wide<T> *lse,
                               const double *inv, int64_t rows) {
  using A = Wide<T>;
  const A factor = static_cast<A>(*inv);
  const bool wide = isPacked(dx) && isPacked(logits);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    int64_t label = labels.at(r);
    bool counts = labels.counts(label);
    const A shift = lse[r];
    mapRows(
        dx + r * labels.classes, labels.classes, wide,
        [&](int64_t k, A v) {
          A p = exp(v - shift) - A(k == label);
          return counts ? p * factor : A(0);
        },
        logits + r * labels.classes);
  }
}

template <typename T>
__global__ void mseKernel(Wide<T> *loss, const T *a, const T *b, const double *inv, Strided<2> s) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < s.count; i += blockDim.x) {
    int64_t at[2];
    s.offsets(i, at);
    double d = static_cast<double>(value(a[at[0]])) - static_cast<double>(value(b[at[1]]));
    sum += d * d;
  }
  sum = overBlock<Sum>(sum);
  if (threadIdx.x == 0)
    *loss = static_cast<Wide<T>>(sum * *inv);
}

template <typename T> struct MseGradBody {
  T *out;
  const T *a, *b;
  const double *inv;
  __device__ void operator()(const int64_t (&at)[3]) const {
    double d = static_cast<double>(value(a[at[1]])) - static_cast<double>(value(b[at[2]]));
    out[at[0]] = rounded<T>(static_cast<Wide<T>>(2 * d * *inv));
  }
};

const char *labelsOf(const DsLaunch &l, Labels &labels) {
  const DsTensor &logits = l.ins[0], &t = l.ins[1];
  if (const char *message = requireRowMajor(l))
    return message;
  labels = {t.data,
            static_cast<DType>(t.dtype) == DType::I64,
            attr(l, "ignore_index").i,
            logits.dims[logits.rank - 1],
            l.fault,
            l.id};
  return nullptr;
}

} // namespace

const char *crossEntropy(const DsLaunch *l, void *) {
  Labels labels;
  if (const char *message = labelsOf(*l, labels))
    return message;
  int64_t rows = elems(l->ins[1]);
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T *logits = elem::dataOf<T>(l->ins[0]);
    auto *lse = elem::dataOf<Wide<T>>(l->outs[1]);
    if (rows > 0)
      if (const char *message = launch(lseKernel<T>, gridFor(rows, 1), dim3(kBlock), 0,
                                       streamOf(*l), lse, logits, rows, labels.classes))
        return message;
    return launch(lossKernel<T>, dim3(1), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<Wide<T>>(l->outs[0]), lse, logits, labels,
                  elem::dataOf<double>(l->ins[2]), rows);
  });
}

const char *crossEntropyGrad(const DsLaunch *l, void *) {
  Labels labels;
  if (const char *message = labelsOf(*l, labels))
    return message;
  int64_t rows = elems(l->ins[1]);
  if (rows == 0)
    return nullptr;
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(lossGradKernel<T>, gridFor(rows, 1), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]), labels,
                  elem::dataOf<Wide<T>>(l->ins[2]), elem::dataOf<double>(l->ins[3]), rows);
  });
}

const char *mse(const DsLaunch *l, void *) {
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(mseKernel<T>, dim3(1), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<Wide<T>>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                  elem::dataOf<T>(l->ins[1]), elem::dataOf<double>(l->ins[2]),
                  stridedOf(l->ins[0], l->ins[1]));
  });
}

const char *mseGrad(const DsLaunch *l, void *) {
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(*l,
                          MseGradBody<T>{elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                                         elem::dataOf<T>(l->ins[1]),
                                         elem::dataOf<double>(l->ins[2])},
                          stridedOf(l->outs[0], l->ins[0], l->ins[1]));
  });
}

} // namespace ds::cuda
