// SPDX-License-Identifier: Apache-2.0
//
// Losses and their gradients. Probabilities are not stored: the gradient makes them again from the logits and each row's log
// of the sum of exponentials. Sums over rows are in double, in one fixed order.
#include "kernels/CudaWork.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/SumOfExps.cuh"

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
    const auto exps = sumOfExps<A>(shareOf<T>(classes, r * classes), wide, logits + r * classes);
    if (threadIdx.x == 0)
      lse[r] = exps.lse();
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
    const int64_t label = labels.at(r), first = r * labels.classes;
    const bool counts = labels.counts(label);
    const A shift = lse[r];
    mapRows(
        dx + first, shareOf<T>(labels.classes, first), wide,
        [&](int64_t k, A v) {
          A p = exp(v - shift) - A(k == label);
          return counts ? p * factor : A(0);
        },
        logits + first);
  }
}

// Each block adds a part of the squares; the only one makes the loss of it, several leave sums.
template <typename T>
__global__ void mseKernel(Wide<T> *loss, double *sums, const T *a, const T *b, const double *inv,
                          Strided<2> s) {
  const int64_t part = (s.count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * part,
                end = first + part < s.count ? first + part : s.count;
  double sum = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    int64_t at[2];
    s.offsets(i, at);
    double d = static_cast<double>(value(a[at[0]])) - static_cast<double>(value(b[at[1]]));
    sum += d * d;
  }
  sum = overBlock<Sum>(sum);
  if (threadIdx.x != 0)
    return;
  if (gridDim.x == 1)
    *loss = static_cast<Wide<T>>(sum * *inv);
  else
    sums[blockIdx.x] = sum;
}
template <typename A>
__global__ void mseTotalKernel(A *loss, const double *sums, int count, const double *inv) {
  double sum = overBlock<Sum>(static_cast<int>(threadIdx.x) < count ? sums[threadIdx.x] : 0.0);
  if (threadIdx.x == 0)
    *loss = static_cast<A>(sum * *inv);
}

struct MseGradFn {
  const double *inv;
  template <typename V> __device__ V operator()(V a, V b) const {
    return static_cast<V>(2 * (static_cast<double>(a) - static_cast<double>(b)) * *inv);
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

size_t mseWork(const DsLaunch *l) { return cudaWork("mse", *l); }

const char *mse(const DsLaunch *l, void *) {
  const int64_t blocks = static_cast<int64_t>(mseWork(l) / sizeof(double));
  static_assert(kMseBlocks <= kBlock);
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool isOne = blocks <= 1 || l->workBytes < static_cast<size_t>(blocks) * sizeof(double);
    auto *sums = static_cast<double *>(l->work);
    auto *loss = elem::dataOf<Wide<T>>(l->outs[0]);
    const double *inv = elem::dataOf<double>(l->ins[2]);
    if (const char *message =
            launch(mseKernel<T>, dim3(isOne ? 1 : static_cast<unsigned>(blocks)), dim3(kBlock), 0,
                   streamOf(*l), loss, sums, elem::dataOf<T>(l->ins[0]), elem::dataOf<T>(l->ins[1]),
                   inv, stridedOf(l->ins[0], l->ins[1])))
      return message;
    return isOne ? nullptr
                 : launch(mseTotalKernel<Wide<T>>, dim3(1), dim3(kBlock), 0, streamOf(*l), loss,
                          sums, static_cast<int>(blocks), inv);
  });
}

const char *mseGrad(const DsLaunch *l, void *) {
  return mapBinary<Floats>(*l, MseGradFn{elem::dataOf<double>(l->ins[2])});
}

} // namespace ds::cuda
