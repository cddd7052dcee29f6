// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation over all axes but 1, and running statistics. All arithmetic is in double; mean and var are kept
// in the accumulate type.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

// The axes of a channel's elements, walked over three tensors of one shape.
static Loop<3> channelLoop(const DsTensor &a, const DsTensor &b, const DsTensor &c) {
  Loop<3> loop;
  for (int i = 0; i < a.rank; ++i)
    if (i != 1)
      loop.add(a.dims[i], {a.strides[i], b.strides[i], c.strides[i]});
  return loop;
}

const char *refBatchNorm(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &scale = l->ins[1], &bias = l->ins[2], &y = l->outs[0],
                 &mean = l->outs[1], &var = l->outs[2];
  Loop<3> elements = channelLoop(x, y, y);
  double n = static_cast<double>(std::max<int64_t>(1, elements.count()));
  double eps = attr(*l, "eps").f;
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      const T *from = dataOf<T>(x) + c * x.strides[1];
      T *to = dataOf<T>(y) + c * y.strides[1];
      double sum = 0, squares = 0;
      walk(elements, [&](int64_t i, int64_t, int64_t) { sum += load(from[i]); });
      double m = sum / n;
      walk(elements, [&](int64_t i, int64_t, int64_t) {
        double d = load(from[i]) - m;
        squares += d * d;
      });
      double factor = load(dataOf<T>(scale)[c * scale.strides[0]]) / std::sqrt(squares / n + eps);
      double shift = load(dataOf<T>(bias)[c * bias.strides[0]]);
      walk(elements, [&](int64_t i, int64_t o, int64_t) {
        to[o] = store<T>((load(from[i]) - m) * factor + shift);
      });
      dataOf<A>(mean)[c * mean.strides[0]] = static_cast<A>(m);
      dataOf<A>(var)[c * var.strides[0]] = static_cast<A>(squares / n);
    }
    return nullptr;
  });
}

// With d = x - mean and r = 1 / sqrt(var + eps):
// dx = scale * r * (dy - mean(dy) - d * r^2 * mean(dy * d)), dscale = r * sum of dy * d, dbias = sum of dy.
const char *refBatchNormGrad(const DsLaunch *l, void *) {
  const DsTensor &dy = l->ins[0], &x = l->ins[1], &scale = l->ins[2], &mean = l->ins[3],
                 &var = l->ins[4];
  const DsTensor &dx = l->outs[0], &dscale = l->outs[1], &dbias = l->outs[2];
  Loop<3> elements = channelLoop(x, dy, dx);
  double n = static_cast<double>(std::max<int64_t>(1, elements.count()));
  double eps = attr(*l, "eps").f;
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      const T *px = dataOf<T>(x) + c * x.strides[1], *pdy = dataOf<T>(dy) + c * dy.strides[1];
      T *to = dataOf<T>(dx) + c * dx.strides[1];
      double m = dataOf<A>(mean)[c * mean.strides[0]];
      double r = 1 / std::sqrt(dataOf<A>(var)[c * var.strides[0]] + eps), sum = 0, dot = 0;
      walk(elements, [&](int64_t i, int64_t j, int64_t) {
        double g = load(pdy[j]);
        sum += g;
        dot += g * (load(px[i]) - m);
      });
      double factor = load(dataOf<T>(scale)[c * scale.strides[0]]) * r;
      walk(elements, [&](int64_t i, int64_t j, int64_t o) {
        double d = load(px[i]) - m;
        to[o] = store<T>(factor * (load(pdy[j]) - sum / n - d * r * r * (dot / n)));
      });
      dataOf<T>(dscale)[c * dscale.strides[0]] = store<T>(dot * r);
      dataOf<T>(dbias)[c * dbias.strides[0]] = store<T>(sum);
    }
    return nullptr;
  });
}

const char *refTrack(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &running = l->ins[0], &v = l->ins[1];
  double keep = attr(*l, "keep").f, take = (1 - keep) * attr(*l, "scale").f;
  bool counts = l->rank == 0 || !flag(*l, "first_rank");
  return dispatchFloat(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    walk(loopOf(out, running, v), [&](int64_t o, int64_t i, int64_t j) {
      double next = keep * load(dataOf<T>(running)[i]) + take * load(dataOf<T>(v)[j]);
      dataOf<T>(out)[o] = store<T>(counts ? next : 0.0);
    });
    return nullptr;
  });
}

} // namespace ds::ref
