// SPDX-License-Identifier: Apache-2.0
//
// The optimizers over a bucket's shard, bit for bit those of the host: kernels/OptimizerMath.h. Under skip no element is
// touched; padding, which is in no run, never is.
#include "kernels/OptimizerMath.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Pack.cuh"
#include "kernels/cuda/Runs.cuh"

namespace ds::cuda {

namespace {

/// Scalars of the update, in device memory.
struct UpdateScalars {
  const double *lr, *decay, *clip;
  const uint8_t *skip;
  const double *b1t, *b2t;
};

/// f(gradient, elements of the states...) for this thread's elements of the run, which it may change: packs at once where all are aligned.
template <typename T, typename F, typename... Ts>
__device__ void updateRun(const DsRun &run, F f, const T *g, Ts *...states) {
  constexpr int kSize = Pack<T>::kCount;
  const bool wide = isPacked(g) && (isPacked(states) && ...);
  for (int64_t at = (run.begin / kSize + firstIndex()) * kSize; at < run.end;
       at += indexStep() * kSize) {
    if (!wide || at < run.begin || at + kSize > run.end) {
      for (int64_t i = at < run.begin ? run.begin : at; i < at + kSize && i < run.end; ++i)
        f(g[i], states[i]...);
      continue;
    }
    auto each = [&](const Pack<T> &gs, Pack<Ts>... packs) {
      DS_UNROLL
      for (int k = 0; k < kSize; ++k)
        f(gs.of[k], packs.of[k]...);
      (putPack(states, at, true, packs), ...);
    };
    each(packAt<kSize>(g, at, true), packAt<kSize>(states, at, true)...);
  }
}

template <typename T>
__global__ void adamKernel(T *p, T *m, T *v, const T *g, RunList runs, UpdateScalars u,
                           AdamConfig c) {
  if (*u.skip)
    return;
  DsRun run = runOf(runs);
  const AdamScalars<T> s =
      adamScalars<T>(c, u.lr[run.group], u.decay[run.group], *u.clip, *u.b1t, *u.b2t);
  updateRun(
      run,
      [&](T grad, T &param, T &first, T &second) { adamElement(s, grad, param, first, second); }, g,
      p, m, v);
}

template <typename T>
__global__ void sgdKernel(T *p, T *m, const T *g, RunList runs, UpdateScalars u, double momentum,
                          bool nesterov) {
  if (*u.skip)
    return;
  DsRun run = runOf(runs);
  const SgdScalars<T> s = sgdScalars<T>(momentum, u.lr[run.group], u.decay[run.group], *u.clip);
  updateRun(
      run, [&](T grad, T &param, T &state) { sgdElement(s, nesterov, grad, param, state); }, g, p,
      m);
}

template <typename To> __global__ void roundKernel(To *to, const float *p, int64_t n) {
  roundAll(to, p, n);
}

template <typename F> const char *dispatchArith(uint8_t t, F f) {
  return elem::dispatchArith(t, f);
}

// Every thread makes the scalars of its run in double, which takes longer than a few elements do.
dim3 gridOf(const RunList &list, int64_t longest) {
  constexpr int kEach = 16; // elements of a thread
  return dim3(gridFor(longest, kEach * kBlock).x, static_cast<unsigned>(list.count));
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
  auto round = [&](auto *to) {
    return launch(roundKernel<std::remove_reference_t<decltype(*to)>>, gridFor(n, 8 * kBlock),
                  dim3(kBlock), 0, streamOf(*l), to, elem::dataOf<float>(l->outs[1]), n);
  };
  return static_cast<DType>(l->outs[0].dtype) == DType::BF16 ? round(elem::dataOf<BF16>(l->outs[0]))
                                                             : round(elem::dataOf<F16>(l->outs[0]));
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
