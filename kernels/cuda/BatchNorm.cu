// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation over all axes but 1: a block per channel. And running statistics.
#include "kernels/cuda/Block.cuh"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"

namespace ds::cuda {

namespace {

/// The elements of a channel, all tensors [N,C,..] row-major.
struct Channels {
  int64_t batch = 1, channels = 1, rest = 1;
  __device__ int64_t count() const { return batch * rest; }
  __device__ int64_t at(int64_t c, int64_t i) const {
    return (i / rest * channels + c) * rest + i % rest;
  }
};

template <typename T>
__global__ void batchNormKernel(T *y, Wide<T> *mean, Wide<T> *var, const T *x, const T *scale,
                                const T *bias, Channels s, double eps) {
  using A = Wide<T>;
  const auto n = static_cast<A>(s.count() > 0 ? s.count() : 1);
  for (int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    A sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < s.count(); i += blockDim.x)
      sum += value(x[s.at(c, i)]);
    A m = overBlock<Sum>(sum) / n;
    for (int64_t i = threadIdx.x; i < s.count(); i += blockDim.x) {
      A d = value(x[s.at(c, i)]) - m;
      squares += d * d;
    }
    A v = overBlock<Sum>(squares) / n;
    A factor = value(scale[c]) / static_cast<A>(sqrt(v + static_cast<A>(eps))),
      shift = value(bias[c]);
    for (int64_t i = threadIdx.x; i < s.count(); i += blockDim.x)
      y[s.at(c, i)] = rounded<T>((value(x[s.at(c, i)]) - m) * factor + shift);
    if (threadIdx.x == 0) {
      mean[c] = m;
      var[c] = v;
    }
  }
}

// With d = x - mean and r = 1 / sqrt(var + eps): dx = scale * r * (dy - mean(dy) - d * r^2 * mean(dy * d)).
template <typename T>
__global__ void batchNormGradKernel(T *dx, T *dscale, T *dbias, const T *dy, const T *x,
                                    const T *scale, const Wide<T> *mean, const Wide<T> *var,
                                    Channels s, double eps) {
  using A = Wide<T>;
  const auto n = static_cast<A>(s.count() > 0 ? s.count() : 1);
  for (int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    A m = mean[c], r = A(1) / static_cast<A>(sqrt(var[c] + static_cast<A>(eps))), sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < s.count(); i += blockDim.x) {
      A g = value(dy[s.at(c, i)]);
      sum += g;
      dot += g * (value(x[s.at(c, i)]) - m);
    }
    sum = overBlock<Sum>(sum);
    dot = overBlock<Sum>(dot);
    A factor = value(scale[c]) * r;
    for (int64_t i = threadIdx.x; i < s.count(); i += blockDim.x) {
      int64_t at = s.at(c, i);
      A d = value(x[at]) - m;
      dx[at] = rounded<T>(factor * (value(dy[at]) - sum / n - d * r * r * (dot / n)));
    }
    if (threadIdx.x == 0) {
      dscale[c] = rounded<T>(dot * r);
      dbias[c] = rounded<T>(sum);
    }
  }
}

template <typename T> struct TrackBody {
  T *out;
  const T *running, *v;
  double keep, take;
  bool counts;
  __device__ void operator()(const int64_t (&at)[3]) const {
    double next = keep * static_cast<double>(value(running[at[1]])) +
                  take * static_cast<double>(value(v[at[2]]));
    out[at[0]] = static_cast<T>(counts ? next : 0.0);
  }
};

Channels channelsOf(const DsTensor &x) {
  Channels s;
  s.batch = x.dims[0];
  s.channels = x.dims[1];
  for (int i = 2; i < x.rank; ++i)
    s.rest *= x.dims[i];
  return s;
}

} // namespace

const char *batchNorm(const DsLaunch *l, void *) {
  if (const char *message = requireRowMajor(*l))
    return message;
  Channels s = channelsOf(l->ins[0]);
  if (s.channels == 0)
    return nullptr;
  return Floats::dispatch(l->ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(batchNormKernel<T>, gridFor(s.channels, 1), dim3(kBlock), 0, streamOf(*l),
                  elem::dataOf<T>(l->outs[0]), elem::dataOf<Wide<T>>(l->outs[1]),
                  elem::dataOf<Wide<T>>(l->outs[2]), elem::dataOf<T>(l->ins[0]),
                  elem::dataOf<T>(l->ins[1]), elem::dataOf<T>(l->ins[2]), s, attr(*l, "eps").f);
  });
}

// (dy, x, scale, mean, var) -> dx, dscale, dbias.
const char *batchNormGrad(const DsLaunch *l, void *) {
  if (const char *message = requireRowMajor(*l))
    return message;
  Channels s = channelsOf(l->ins[1]);
  if (s.channels == 0)
    return nullptr;
  return Floats::dispatch(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch(
        batchNormGradKernel<T>, gridFor(s.channels, 1), dim3(kBlock), 0, streamOf(*l),
        elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->outs[1]), elem::dataOf<T>(l->outs[2]),
        elem::dataOf<T>(l->ins[0]), elem::dataOf<T>(l->ins[1]), elem::dataOf<T>(l->ins[2]),
        elem::dataOf<Wide<T>>(l->ins[3]), elem::dataOf<Wide<T>>(l->ins[4]), s, attr(*l, "eps").f);
  });
}

const char *track(const DsLaunch *l, void *) {
  double keep = attr(*l, "keep").f, take = (1 - keep) * attr(*l, "scale").f;
  bool counts = l->rank == 0 || !flag(*l, "first_rank");
  return elem::dispatchArith(l->outs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(*l,
                          TrackBody<T>{elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                                       elem::dataOf<T>(l->ins[1]), keep, take, counts},
                          stridedOf(l->outs[0], l->ins[0], l->ins[1]));
  });
}

} // namespace ds::cuda
