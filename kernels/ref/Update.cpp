// SPDX-License-Identifier: Apache-2.0
//
// The update program's kernels: norm and clip factor, optimizers, and the scalars that advance. Under skip,
// in-place results keep their bits. Shards are contiguous; padding, which is in no run, is not touched.
#include "ir/Bins.h"
#include "ir/Type.h"
#include "kernels/OptimizerMath.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <algorithm>
#include <cstring>
#include <numbers>

namespace ds::ref {

// f(begin, end, group) for the runs of operand i; without runs, the operand is one run of group 0.
template <typename F> static void forEachRun(const DsLaunch &l, int32_t i, F f) {
  if (!l.runs || !l.runs[i]) {
    f(int64_t(0), elems(l.ins[i]), int32_t(0));
    return;
  }
  for (int32_t k = 0; k < l.numRuns[i]; ++k)
    f(l.runs[i][k].begin, l.runs[i][k].end, l.runs[i][k].group);
}

// The runs of the parameters (operand 1) index lr and decay by group.
static const char *checkGroups(const DsLaunch &l, const DsTensor &lr) {
  const char *error = nullptr;
  forEachRun(l, 1, [&](int64_t, int64_t, int32_t group) {
    if (group < 0 || group >= lr.dims[0])
      error = message("group %d has no learning rate: there are %lld", group,
                      static_cast<long long>(lr.dims[0]));
  });
  return error;
}

static bool scalarFlag(const DsTensor &t) { return *static_cast<const uint8_t *>(t.data) != 0; }

// ---- norm -------------------------------------------------------------------------------------------

const char *refSumSquares(const DsLaunch *l, void *) {
  int64_t *bins = dataOf<int64_t>(l->outs[0]);
  std::fill(bins, bins + kBinSlots, 0);
  for (int32_t i = 0; i < l->numIns; ++i) {
    const DsTensor &x = l->ins[i];
    if (!isRowMajor(x))
      return "sum_squares: an operand is not contiguous";
    const char *error = dispatchArith(x.dtype, [&](auto tag) -> const char * {
      using T = typename decltype(tag)::Type;
      forEachRun(*l, i, [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t at = begin; at < end; at += kQuantum)
          addToBins(bins, chunkSumSquares(dataOf<T>(x) + at, std::min(kQuantum, end - at)));
      });
      return nullptr;
    });
    if (error)
      return error;
  }
  return nullptr;
}

// (bins[, scale]) -> norm, factor, skip. The factor is torch.nn.utils.clip_grad_norm_'s, at most 1, over the scale
// that the gradients have.
const char *refClipFactor(const DsLaunch *l, void *) {
  double scale = l->numIns > 1 ? *dataOf<double>(l->ins[1]) : 1.0;
  double norm = std::sqrt(binsValue(dataOf<int64_t>(l->ins[0]))) / scale;
  double maxNorm = attr(*l, "max_norm").f;
  double factor = maxNorm > 0 ? std::min(1.0, maxNorm / (norm + 1e-6)) : 1.0;
  *dataOf<double>(l->outs[0]) = norm;
  *dataOf<double>(l->outs[1]) = factor / scale;
  *dataOf<uint8_t>(l->outs[2]) = !std::isfinite(norm);
  return nullptr;
}

// (scale, since, left, skip): DeepSpeed's DynamicLossScaler. since counts updates from the last skipped one on, left
// is what remains of the hysteresis.
const char *refLossScale(const DsLaunch *l, void *) {
  double scale = *dataOf<double>(l->ins[0]);
  int64_t since = *dataOf<int64_t>(l->ins[1]), left = *dataOf<int64_t>(l->ins[2]);
  int64_t hysteresis = attr(*l, "hysteresis").i;
  bool consecutive = flag(*l, "consecutive");
  if (scalarFlag(l->ins[3])) {
    if (hysteresis == 1 || left == 1)
      scale = std::max(scale / 2, attr(*l, "min").f);
    else
      --left;
    since = 0;
  } else {
    bool grows = since % attr(*l, "window").i == 0;
    if (consecutive || grows)
      left = hysteresis;
    if (grows)
      scale *= 2;
  }
  *dataOf<double>(l->outs[0]) = scale;
  *dataOf<int64_t>(l->outs[1]) = since + 1;
  *dataOf<int64_t>(l->outs[2]) = left;
  return nullptr;
}

// ---- scalars ----------------------------------------------------------------------------------------

const char *refInvCount(const DsLaunch *l, void *) {
  double n = *dataOf<double>(l->ins[0]);
  *dataOf<double>(l->outs[0]) = n == 0 ? 0.0 : 1.0 / n;
  return nullptr;
}

// DeepSpeed's WarmupLR, WarmupDecayLR and WarmupCosineLR, operation by operation.
static double scheduledRate(const DsLaunch &l, const char *kind, int64_t tick) {
  auto warmup = static_cast<double>(attr(l, "warmup").i),
       total = static_cast<double>(attr(l, "total").i), t = static_cast<double>(tick);
  double low = attr(l, "min").f, high = attr(l, "max").f, floor = attr(l, "floor").f;
  bool cosine = std::strcmp(kind, "warmup_cosine") == 0;
  if (t < warmup) {
    double part = flag(l, "log") ? (1.0 / std::log(warmup)) * std::log(t + 1) : t / warmup;
    return cosine ? high * (low + part * (1.0 - low)) : low + (high - low) * part;
  }
  if (cosine) {
    double progress = std::min(1.0, (t - warmup + 1) / std::max(1.0, total - warmup));
    double ratio = (1 + std::cos(std::numbers::pi * progress)) / 2;
    return high * std::max(0.0, floor + (1.0 - floor) * ratio);
  }
  double part = std::strcmp(kind, "warmup_decay") == 0
                    ? std::max(0.0, (total - t) / std::max(1.0, total - warmup))
                    : 1;
  return low + (high - low) * part;
}

// (lr, step, skip): the rate of the next update. step counts the updates before this one, and the next update
// runs at that tick (docs/schedule.md).
const char *refLrSchedule(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &in = l->ins[0];
  const char *kind = attr(*l, "kind").s;
  bool keep = scalarFlag(l->ins[2]) || std::strcmp(kind, "constant") == 0;
  double rate = keep ? 0 : scheduledRate(*l, kind, *dataOf<int64_t>(l->ins[1]));
  walk(loopOf(out, in),
       [&](int64_t o, int64_t i) { dataOf<double>(out)[o] = keep ? dataOf<double>(in)[i] : rate; });
  return nullptr;
}

// (s, skip): s * mul + add.
const char *refAdvance(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &in = l->ins[0];
  bool skip = scalarFlag(l->ins[1]);
  double mul = attr(*l, "mul").f, add = attr(*l, "add").f;
  walk(loopOf(out, in), [&](int64_t o, int64_t i) {
    if (in.dtype == static_cast<uint8_t>(DType::I64)) {
      int64_t s = dataOf<int64_t>(in)[i];
      auto next = static_cast<uint64_t>(s) * static_cast<uint64_t>(static_cast<int64_t>(mul)) +
                  static_cast<uint64_t>(static_cast<int64_t>(add));
      dataOf<int64_t>(out)[o] = skip ? s : static_cast<int64_t>(next);
    } else {
      double s = dataOf<double>(in)[i];
      dataOf<double>(out)[o] = skip ? s : s * mul + add;
    }
  });
  return nullptr;
}

// ---- optimizers -------------------------------------------------------------------------------------

// (g, p, m, lr, decay, clip, skip) -> p, m in place.
const char *refSgd(const DsLaunch *l, void *) {
  if (const char *error = checkGroups(*l, l->ins[3]))
    return error;
  if (scalarFlag(l->ins[6]))
    return nullptr;
  const double *lr = dataOf<double>(l->ins[3]), *decay = dataOf<double>(l->ins[4]);
  double clip = *dataOf<double>(l->ins[5]), momentum = attr(*l, "momentum").f;
  bool nesterov = flag(*l, "nesterov");
  return dispatchArith(l->ins[1].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    const T *g = dataOf<T>(l->ins[0]);
    T *p = dataOf<T>(l->outs[0]), *m = dataOf<T>(l->outs[1]);
    forEachRun(*l, 1, [&](int64_t begin, int64_t end, int32_t group) {
      SgdScalars<T> s = sgdScalars<T>(momentum, lr[group], decay[group], clip);
      for (int64_t i = begin; i < end; ++i)
        sgdElement(s, nesterov, g[i], p[i], m[i]);
    });
    return nullptr;
  });
}

// (g, p, m, v, lr, decay, clip, skip, b1t, b2t) -> p, m, v in place, which are results `first` and on.
static const char *updateAdam(const DsLaunch *l, int first) {
  if (const char *error = checkGroups(*l, l->ins[4]))
    return error;
  if (scalarFlag(l->ins[7]))
    return nullptr;
  AdamConfig config = {attr(*l, "b1").f, attr(*l, "b2").f, attr(*l, "eps").f, flag(*l, "decoupled"),
                       flag(*l, "bias_correction")};
  const double *lr = dataOf<double>(l->ins[4]), *decay = dataOf<double>(l->ins[5]);
  double clip = *dataOf<double>(l->ins[6]), b1t = *dataOf<double>(l->ins[8]),
         b2t = *dataOf<double>(l->ins[9]);
  return dispatchArith(l->ins[1].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    const T *g = dataOf<T>(l->ins[0]);
    T *p = dataOf<T>(l->outs[first]), *m = dataOf<T>(l->outs[first + 1]),
      *v = dataOf<T>(l->outs[first + 2]);
    forEachRun(*l, 1, [&](int64_t begin, int64_t end, int32_t group) {
      AdamScalars<T> s = adamScalars<T>(config, lr[group], decay[group], clip, b1t, b2t);
      for (int64_t i = begin; i < end; ++i)
        adamElement(s, g[i], p[i], m[i], v[i]);
    });
    return nullptr;
  });
}

const char *refAdam(const DsLaunch *l, void *) { return updateAdam(l, 0); }

// -> rounded, p, m, v. All of p is rounded, also under skip and between runs.
const char *refAdamRound(const DsLaunch *l, void *) {
  if (const char *error = updateAdam(l, 1))
    return error;
  const float *p = dataOf<float>(l->outs[1]);
  auto *rounded = dataOf<uint16_t>(l->outs[0]);
  bool bf16 = l->outs[0].dtype == static_cast<uint8_t>(DType::BF16);
  for (int64_t i = 0; i < elems(l->outs[1]); ++i)
    rounded[i] = bf16 ? elem::BF16::from(static_cast<double>(p[i])).bits
                      : elem::F16::from(static_cast<double>(p[i])).bits;
  return nullptr;
}

} // namespace ds::ref
