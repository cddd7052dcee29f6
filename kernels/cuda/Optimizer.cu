// SPDX-License-Identifier: Apache-2.0
//
// The optimizers over a bucket's shard, bit for bit those of the host: kernels/OptimizerMath.h. Under skip no element is
// touched; padding, which is in no run, never is.
#include "kernels/OptimizerMath.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Runs.cuh"

namespace ds::cuda {

namespace {

/// Scalars of the update, in device memory.
struct UpdateScalars {
  const double *lr, *decay, *clip;
  const uint8_t *skip;
  const double *b1t, *b2t;
};

template <typename T>
__global__ void adamKernel(T *p, T *m, T *v, const T *g, RunList runs, UpdateScalars u,
                           AdamConfig c) {
  if (*u.skip)
    return;
  DsRun run = runOf(runs);
  const AdamScalars<T> s =
      adamScalars<T>(c, u.lr[run.group], u.decay[run.group], *u.clip, *u.b1t, *u.b2t);
  for (int64_t i = run.begin + firstIndex(); i < run.end; i += indexStep())
    adamElement(s, g[i], p[i], m[i], v[i]);
}

template <typename T>
__global__ void sgdKernel(T *p, T *m, const T *g, RunList runs, UpdateScalars u, double momentum,
                          bool nesterov) {
  if (*u.skip)
    return;
  DsRun run = runOf(runs);
  const SgdScalars<T> s = sgdScalars<T>(momentum, u.lr[run.group], u.decay[run.group], *u.clip);
  for (int64_t i = run.begin + firstIndex(); i < run.end; i += indexStep())
    sgdElement(s, nesterov, g[i], p[i], m[i]);
}

template <bool kBf16> __global__ void roundKernel(uint16_t *to, const float *p, int64_t n) {
  for (int64_t i = firstIndex(); i < n; i += indexStep())
    to[i] = kBf16 ? bf16Bits(p[i]) : f16Bits(p[i]);
}

template <typename F> const char *dispatchArith(uint8_t t, F f) {
  return elem::dispatchArith(t, f);
}

dim3 gridOf(const RunList &list, int64_t longest) {
  return dim3(gridFor(longest).x, static_cast<unsigned>(list.count));
}

// Groups index lr and decay: known on the host.
const char *checkGroups(const RunList &list, const DsTensor &lr) {
  for (int k = 0; k < list.count; ++k)
    if (list.runs[k].group < 0 || list.runs[k].group >= lr.dims[0])
      return failure("group %d has no learning rate: there are %lld", list.runs[k].group,
                     static_cast<long long>(lr.dims[0]));
  return nullptr;
}

// (g, p, m, v, lr, decay, clip, skip, b1t, b2t) -> p, m, v in place, which are results `first` and on.
const char *updateAdam(const DsLaunch *l, int first) {
  AdamConfig c = {attr(*l, "b1").f, attr(*l, "b2").f, attr(*l, "eps").f, flag(*l, "decoupled"),
                  flag(*l, "bias_correction")};
  UpdateScalars u = {elem::dataOf<double>(l->ins[4]), elem::dataOf<double>(l->ins[5]),
                     elem::dataOf<double>(l->ins[6]), elem::dataOf<uint8_t>(l->ins[7]),
                     elem::dataOf<double>(l->ins[8]), elem::dataOf<double>(l->ins[9])};
  return dispatchArith(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return forEachRunList(*l, 1, [&](const RunList &runs, int64_t longest) -> const char * {
      if (const char *message = checkGroups(runs, l->ins[4]))
        return message;
      return launch(adamKernel<T>, gridOf(runs, longest), dim3(kBlock), 0, streamOf(*l),
                    elem::dataOf<T>(l->outs[first]), elem::dataOf<T>(l->outs[first + 1]),
                    elem::dataOf<T>(l->outs[first + 2]), elem::dataOf<T>(l->ins[0]), runs, u, c);
    });
  });
}

} // namespace

const char *adam(const DsLaunch *l, void *) { return updateAdam(l, 0); }

// -> rounded, p, m, v. All of p is rounded, also under skip and between runs.
const char *adamRound(const DsLaunch *l, void *) {
  if (const char *message = updateAdam(l, 1))
    return message;
  int64_t n = elems(l->outs[1]);
  if (n == 0)
    return nullptr;
  auto *kernel =
      static_cast<DType>(l->outs[0].dtype) == DType::BF16 ? roundKernel<true> : roundKernel<false>;
  return launch(kernel, gridFor(n), dim3(kBlock), 0, streamOf(*l),
                elem::dataOf<uint16_t>(l->outs[0]), elem::dataOf<float>(l->outs[1]), n);
}

// (g, p, m, lr, decay, clip, skip) -> p, m in place.
const char *sgd(const DsLaunch *l, void *) {
  UpdateScalars u = {elem::dataOf<double>(l->ins[3]),
                     elem::dataOf<double>(l->ins[4]),
                     elem::dataOf<double>(l->ins[5]),
                     elem::dataOf<uint8_t>(l->ins[6]),
                     nullptr,
                     nullptr};
  return dispatchArith(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return forEachRunList(*l, 1, [&](const RunList &runs, int64_t longest) -> const char * {
      if (const char *message = checkGroups(runs, l->ins[3]))
        return message;
      return launch(sgdKernel<T>, gridOf(runs, longest), dim3(kBlock), 0, streamOf(*l),
                    elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->outs[1]),
                    elem::dataOf<T>(l->ins[0]), runs, u, attr(*l, "momentum").f,
                    flag(*l, "nesterov"));
    });
  });
}

} // namespace ds::cuda
