// SPDX-License-Identifier: Apache-2.0
//
// linear_cross_entropy and its gradients: chunks of rows of logits, as kernels/LinearLoss.h has them, by the products of
// Product.h. Per chunk: logits; a block per row makes its loss and turns its logits into their gradient; columns are added for
// dbias; dx; dw, which adds up. Sums of losses and columns are in double, in one fixed order.
#include "kernels/LinearLoss.h"

#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Product.h"
#include "kernels/cuda/SumOfExps.cuh"

#include <memory>
#include <new>

namespace ds::cuda {

namespace {

/// What kernels know of a chunk.
struct Rows {
  const void *labels; // of its first row
  bool wide;
  int64_t ignore, classes, stride, count;
  DsFault *fault;
  int32_t id;
  __device__ int64_t label(int64_t row) const {
    return wide ? static_cast<const int64_t *>(labels)[row]
                : static_cast<const int32_t *>(labels)[row];
  }
};

// Adds the bias to a row, sets its term of the loss, and with `scaled` makes the row the gradient. Rows begin where packs do.
template <typename T>
__global__ void rowKernel(T *logits, const T *bias, double *terms, const double *scaled, Rows s) {
  using A = Wide<T>;
  const A factor = scaled ? static_cast<A>(*scaled) : A(0);
  const Share share = shareOf<T>(s.classes, 0);
  for (int64_t r = blockIdx.x; r < s.count; r += gridDim.x) {
    T *row = logits + r * s.stride;
    const int64_t label = s.label(r);
    const bool isClass = label >= 0 && label < s.classes, counts = isClass && label != s.ignore;
    if (threadIdx.x == 0 && !isClass && label != s.ignore)
      setFault(s.fault, s.id, kBadLabel, label, s.classes);
    if (bias) // each thread reads on what it wrote itself
      mapRows(
          row, share, isPacked(bias), [](int64_t, A v, A b) { return v + b; }, row, bias);
    const A lse = sumOfExps<A>(share, true, row).lse();
    auto gradient = [&](int64_t k, A v) {
      if (counts && k == label)
        terms[r] = static_cast<double>(lse) - static_cast<double>(v);
      return counts ? (exp(v - lse) - A(k == label)) * factor : A(0);
    };
    if (scaled)
      mapRows(row, share, true, gradient, row);
    else if (counts && threadIdx.x == 0)
      terms[r] = static_cast<double>(lse) - static_cast<double>(value(row[label]));
    if (threadIdx.x == 0 && !counts)
      terms[r] = 0;
  }
}

// One block, so that the order of the sum is fixed.
template <typename T>
__global__ void totalKernel(T *loss, double *total, const double *terms, int64_t count, bool first,
                            const double *inv) {
  double sum = 0;
  for (int64_t r = threadIdx.x; r < count; r += blockDim.x)
    sum += terms[r];
  sum = overBlock<Sum>(sum);
  if (threadIdx.x != 0)
    return;
  sum += first ? 0 : *total;
  *total = sum;
  *loss = static_cast<T>(sum * *inv);
}

template <typename T>
__global__ void __launch_bounds__(kColumnBlock)
    columnsKernel(T *dbias, double *sums, const T *grads, bool first, Rows s) {
  sumColumns<1>(
      s.count, s.classes,
      [&](double *sum, int64_t r, int64_t k) {
        *sum += static_cast<double>(value(grads[r * s.stride + k]));
      },
      [&](int, int64_t k, double sum) {
        sums[k] = first ? sum : sums[k] + sum;
        dbias[k] = rounded<T>(static_cast<Wide<T>>(sums[k]));
      });
}

template <typename T> __global__ void roundKernel(T *out, const float *sums, int64_t n) {
  if (sums)
    return roundAll(out, sums, n);
  for (int64_t i = firstIndex(); i < n; i += indexStep())
    out[i] = T();
}

struct State {
  LinearLossShape s;
  LinearLossWork at;
  Product products[3][3]; // by kind of chunk and role
  const Product &product(int64_t i, LossProduct role) const {
    return products[s.kindOf(i)][static_cast<int>(role)];
  }
};

const char *prepare(const DsLaunch &l, bool isGradient, void **state) {
  if (const char *message = requireRowMajor(l))
    return message;
  std::unique_ptr<State> p(new (std::nothrow) State);
  if (!p)
    return "out of memory";
  const auto type = static_cast<DType>(l.ins[0].dtype);
  p->s = linearLossShape(l, isGradient, type);
  p->at = LinearLossWork(p->s, type);
  if (l.workBytes < p->at.products)
    return "the plan's workspace is smaller than this kernel needs";
  const char *error = nullptr;
  p->s.forProducts([&](int64_t i, LossProduct role) {
    bool isDw = role == LossProduct::Dw;
    LtTypes t{type, isDw && p->s.hasSums ? DType::F32 : type, isDw && i > 0};
    if (!error)
      error = p->products[p->s.kindOf(i)][static_cast<int>(role)].prepare(
          p->s.product(role, p->s.rowsOf(i)), t, l.workBytes - p->at.products);
  });
  if (error)
    return error;
  *state = p.release();
  return nullptr;
}

template <typename T> const char *run(const DsLaunch &l, const State &p) {
  const LinearLossShape &s = p.s;
  const bool isGradient = s.isGradient;
  cudaStream_t stream = streamOf(l);
  auto work = [&](size_t at) { return static_cast<char *>(l.work) + at; };
  const DsTensor &labels = l.ins[2];
  void *scratch = work(p.at.products);
  T *chunk = reinterpret_cast<T *>(work(p.at.chunk));
  auto *terms = reinterpret_cast<double *>(work(p.at.terms));
  auto *columns = reinterpret_cast<double *>(work(p.at.columns));
  auto *sums = reinterpret_cast<float *>(work(p.at.sums));
  const T *x = elem::dataOf<T>(l.ins[0]), *w = elem::dataOf<T>(l.ins[1]);
  const T *bias = s.biasAt >= 0 ? elem::dataOf<T>(l.ins[s.biasAt]) : nullptr;
  const double *scaled = isGradient ? elem::dataOf<double>(l.ins[4]) : nullptr;
  T *dw = isGradient ? elem::dataOf<T>(l.outs[2]) : nullptr;
  auto total = [&](int64_t count, bool first) {
    return launch(totalKernel<Wide<T>>, dim3(1), dim3(kBlock), 0, stream,
                  elem::dataOf<Wide<T>>(l.outs[0]), terms + s.chunk, terms, count, first,
                  elem::dataOf<double>(l.ins[3]));
  };
  for (int64_t i = 0; i < s.chunks(); ++i) {
    const int64_t first = i * s.chunk, m = s.rowsOf(i);
    const Rows rows = {static_cast<const char *>(labels.data) +
                           first * byteSize(static_cast<DType>(labels.dtype)),
                       static_cast<DType>(labels.dtype) == DType::I64,
                       s.ignore,
                       s.classes,
                       s.stride,
                       m,
                       l.fault,
                       l.id};
    const T *from = x + first * s.inner;
    if (const char *message =
            p.product(i, LossProduct::Logits).run(from, w, chunk, scratch, stream))
      return message;
    if (const char *message = launch(rowKernel<T>, gridFor(m, 1), dim3(kBlock), 0, stream, chunk,
                                     bias, terms, scaled, rows))
      return message;
    if (const char *message = total(m, i == 0))
      return message;
    if (!isGradient)
      continue;
    if (s.wantsBias())
      if (const char *message = launch(columnsKernel<T>, gridOfColumns(s.classes),
                                       dim3(kColumnBlock), 0, stream, elem::dataOf<T>(l.outs[3]),
                                       columns, static_cast<const T *>(chunk), i == 0, rows))
        return message;
    T *dx = elem::dataOf<T>(l.outs[1]) + first * s.inner;
    if (const char *message = p.product(i, LossProduct::Dx).run(chunk, w, dx, scratch, stream))
      return message;
    const void *a = s.transW ? chunk : from, *b = s.transW ? from : chunk;
    void *to = s.hasSums ? static_cast<void *>(sums) : dw;
    if (const char *message = p.product(i, LossProduct::Dw).run(a, b, to, scratch, stream))
      return message;
  }
  if (s.chunks() == 0)
    if (const char *message = total(0, true))
      return message;
  auto fill = [&](T *out, const float *values, int64_t n) -> const char * {
    return n == 0 ? nullptr
                  : launch(roundKernel<T>, gridFor(n, 8 * kBlock), dim3(kBlock), 0, stream, out,
                           values, n);
  };
  if (s.wantsBias() && s.chunks() == 0)
    if (const char *message = fill(elem::dataOf<T>(l.outs[3]), nullptr, s.classes))
      return message;
  if (isGradient && (s.hasSums || s.chunks() == 0))
    return fill(dw, s.hasSums ? sums : nullptr, s.classes * s.inner);
  return nullptr;
}

const char *run(const DsLaunch &l, const State &p) {
  return Floats::dispatch(l.ins[0].dtype,
                          [&](auto tag) { return run<typename decltype(tag)::Type>(l, p); });
}

const char *noteOf(const State &p) {
  const std::string &note = p.products[0][0].note();
  return note.empty() ? nullptr : note.c_str();
}

} // namespace

const char *linearCrossEntropyPrepare(const DsLaunch *l, void **state) {
  return prepare(*l, false, state);
}
void linearCrossEntropyDestroy(void *state) { delete static_cast<State *>(state); }
size_t linearCrossEntropyWork(const DsLaunch *l) { return cudaLinearLossWork(*l, false); }
const char *linearCrossEntropyNote(void *state) { return noteOf(*static_cast<State *>(state)); }
const char *linearCrossEntropy(const DsLaunch *l, void *state) {
  return run(*l, *static_cast<State *>(state));
}

const char *linearCrossEntropyGradPrepare(const DsLaunch *l, void **state) {
  return prepare(*l, true, state);
}
void linearCrossEntropyGradDestroy(void *state) { delete static_cast<State *>(state); }
size_t linearCrossEntropyGradWork(const DsLaunch *l) { return cudaLinearLossWork(*l, true); }
const char *linearCrossEntropyGradNote(void *state) { return noteOf(*static_cast<State *>(state)); }
const char *linearCrossEntropyGrad(const DsLaunch *l, void *state) {
  return run(*l, *static_cast<State *>(state));
}

} // namespace ds::cuda
