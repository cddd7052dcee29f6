// SPDX-License-Identifier: Apache-2.0
//
// The norm, and the scalars that advance with every update; they never leave the device. One thread does what has one
// result. The arithmetic is that of kernels/ref/Update.cpp.
#include "ir/Bins.h"
#include "ir/Type.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Runs.cuh"

#include <cstring>

namespace ds::cuda {

namespace {

/// Sums of squares on their way to the bins. Most of a tensor's fall into the same few, so a thread adds up what goes to one of
/// them, as integers, and disturbs memory that all threads share when another one's turn comes.
class PendingBins {
public:
  __device__ explicit PendingBins(unsigned long long *bins) : bins(bins) {}
  __device__ void add(double sum) {
    const BinWords w = binWords(sum);
    if (w.bin != bin)
      flush();
    bin = w.bin;
    DS_UNROLL
    for (int k = 0; k < 3; ++k)
      words[k] += w.words[k];
  }
  __device__ void flush() {
    DS_UNROLL
    for (int k = 0; k < 3; ++k) {
      if (words[k])
        atomicAdd(bins + bin + k, words[k]);
      words[k] = 0;
    }
  }

private:
  unsigned long long *bins;
  int bin = 0;
  unsigned long long words[3] = {0, 0, 0};
};

constexpr int kChunks = 16;            // of eight lanes, where there are very many
constexpr unsigned kManyBlocks = 2048; // fill any device

// Eight lanes per chunk of kQuantum elements, added pairwise as chunkSumSquares does.
template <typename T>
__global__ void sumSquaresKernel(unsigned long long *bins, const T *x, RunList runs) {
  DsRun run = runOf(runs);
  int64_t chunks = (run.end - run.begin + kQuantum - 1) / kQuantum;
  // All lanes of a warp go round together, for the exchange.
  int64_t rounds = (chunks * 8 + indexStep() - 1) / indexStep();
  PendingBins pending(bins);
  for (int64_t round = 0; round < rounds; ++round) {
    int64_t i = firstIndex() + round * indexStep(), chunk = i / 8;
    int64_t begin = run.begin + chunk * kQuantum;
    int64_t end = begin + kQuantum < run.end ? begin + kQuantum : run.end;
    double sum = 0;
    for (int64_t k = begin + i % 8; chunk < chunks && k < end; k += 8) {
      auto v = static_cast<double>(x[k]);
      sum += v * v;
    }
    for (int lanes = 4; lanes > 0; lanes /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (i % 8 == 0 && chunk < chunks)
      pending.add(sum);
  }
  pending.flush();
}

__global__ void clipKernel(double *norm, double *factor, uint8_t *skip, const int64_t *bins,
                           const double *scaleAt, double maxNorm) {
  double scale = scaleAt ? *scaleAt : 1.0;
  double n = sqrt(binsValue(bins)) / scale;
  double f = maxNorm / (n + 1e-6);
  *norm = n;
  *factor = (maxNorm > 0 ? (f < 1.0 ? f : 1.0) : 1.0) / scale;
  *skip = !(n - n == 0);
}

__global__ void invCountKernel(double *out, const double *count) {
  *out = *count == 0 ? 0.0 : 1.0 / *count;
}

struct ScaleRule {
  int64_t hysteresis, window;
  double least;
  bool consecutive;
};
__global__ void lossScaleKernel(double *scaleOut, int64_t *sinceOut, int64_t *leftOut,
                                const double *scaleIn, const int64_t *sinceIn,
                                const int64_t *leftIn, const uint8_t *skip, ScaleRule r) {
  double scale = *scaleIn;
  int64_t since = *sinceIn, left = *leftIn;
  if (*skip) {
    if (r.hysteresis == 1 || left == 1)
      scale = scale / 2 > r.least ? scale / 2 : r.least;
    else
      --left;
    since = 0;
  } else {
    bool grows = since % r.window == 0;
    if (r.consecutive || grows)
      left = r.hysteresis;
    if (grows)
      scale *= 2;
  }
  *scaleOut = scale;
  *sinceOut = since + 1;
  *leftOut = left;
}

enum class Schedule { Constant, Warmup, Decay, Cosine };
struct RateRule {
  Schedule kind;
  double warmup, total, low, high, floor;
  bool log;
};
__device__ double scheduledRate(const RateRule &r, double t) {
  if (t < r.warmup) {
    double part = r.log ? (1.0 / log(r.warmup)) * log(t + 1) : t / r.warmup;
    return r.kind == Schedule::Cosine ? r.high * (r.low + part * (1.0 - r.low))
                                      : r.low + (r.high - r.low) * part;
  }
  double rest = r.total - r.warmup > 1.0 ? r.total - r.warmup : 1.0;
  if (r.kind == Schedule::Cosine) {
    double progress = (t - r.warmup + 1) / rest;
    double ratio = (1 + cos(3.14159265358979323846 * (progress < 1.0 ? progress : 1.0))) / 2;
    double v = r.floor + (1.0 - r.floor) * ratio;
    return r.high * (v > 0.0 ? v : 0.0);
  }
  double part = 1;
  if (r.kind == Schedule::Decay) {
    part = (r.total - t) / rest;
    part = part > 0.0 ? part : 0.0;
  }
  return r.low + (r.high - r.low) * part;
}
struct RateBody {
  double *out;
  const double *in;
  const int64_t *step;
  const uint8_t *skip;
  RateRule rule;
  __device__ void operator()(const int64_t (&at)[2]) const {
    bool keep = *skip || rule.kind == Schedule::Constant;
    out[at[0]] = keep ? in[at[1]] : scheduledRate(rule, static_cast<double>(*step));
  }
};

template <typename T> struct AdvanceBody {
  T *out;
  const T *in;
  const uint8_t *skip;
  double mul, add;
  __device__ void operator()(const int64_t (&at)[2]) const {
    T s = in[at[1]];
    if constexpr (std::is_same_v<T, int64_t>)
      out[at[0]] = *skip
                       ? s
                       : static_cast<int64_t>(static_cast<uint64_t>(s) *
                                                  static_cast<uint64_t>(static_cast<int64_t>(mul)) +
                                              static_cast<uint64_t>(static_cast<int64_t>(add)));
    else
      out[at[0]] = *skip ? s : s * mul + add;
  }
};

} // namespace

const char *sumSquares(const DsLaunch *l, void *) {
  auto *bins = elem::dataOf<unsigned long long>(l->outs[0]);
  CUDA_TRY(cudaMemsetAsync(bins, 0, sizeof(int64_t) * kBinSlots, streamOf(*l)));
  for (int32_t i = 0; i < l->numIns; ++i) {
    if (!isRowMajor(l->ins[i]))
      return "an operand is not contiguous";
    const char *message = elem::dispatchArith(l->ins[i].dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      return forEachRunList(*l, i, [&](const RunList &runs, int64_t longest) {
        // A device's worth of threads first; more to each of them behind that.
        const int64_t perBlock = int64_t{kBlock} * kQuantum / 8;
        dim3 grid(std::min(gridFor(longest, perBlock).x,
                           std::max(kManyBlocks, gridFor(longest, kChunks * perBlock).x)),
                  static_cast<unsigned>(runs.count));
        return launch(sumSquaresKernel<T>, grid, dim3(kBlock), 0, streamOf(*l), bins,
                      elem::dataOf<T>(l->ins[i]), runs);
      });
    });
    if (message)
      return message;
  }
  return nullptr;
}

const char *clipFactor(const DsLaunch *l, void *) {
  return launch(clipKernel, dim3(1), dim3(1), 0, streamOf(*l), elem::dataOf<double>(l->outs[0]),
                elem::dataOf<double>(l->outs[1]), elem::dataOf<uint8_t>(l->outs[2]),
                elem::dataOf<int64_t>(l->ins[0]),
                l->numIns > 1 ? elem::dataOf<double>(l->ins[1]) : nullptr, attr(*l, "max_norm").f);
}

const char *invCount(const DsLaunch *l, void *) {
  return launch(invCountKernel, dim3(1), dim3(1), 0, streamOf(*l), elem::dataOf<double>(l->outs[0]),
                elem::dataOf<double>(l->ins[0]));
}

const char *lossScale(const DsLaunch *l, void *) {
  ScaleRule r = {attr(*l, "hysteresis").i, attr(*l, "window").i, attr(*l, "min").f,
                 flag(*l, "consecutive")};
  return launch(lossScaleKernel, dim3(1), dim3(1), 0, streamOf(*l),
                elem::dataOf<double>(l->outs[0]), elem::dataOf<int64_t>(l->outs[1]),
                elem::dataOf<int64_t>(l->outs[2]), elem::dataOf<double>(l->ins[0]),
                elem::dataOf<int64_t>(l->ins[1]), elem::dataOf<int64_t>(l->ins[2]),
                elem::dataOf<uint8_t>(l->ins[3]), r);
}

const char *lrSchedule(const DsLaunch *l, void *) {
  const char *kind = attr(*l, "kind").s;
  Schedule k = std::strcmp(kind, "constant") == 0        ? Schedule::Constant
               : std::strcmp(kind, "warmup_decay") == 0  ? Schedule::Decay
               : std::strcmp(kind, "warmup_cosine") == 0 ? Schedule::Cosine
                                                         : Schedule::Warmup;
  RateRule rule = {k,
                   static_cast<double>(attr(*l, "warmup").i),
                   static_cast<double>(attr(*l, "total").i),
                   attr(*l, "min").f,
                   attr(*l, "max").f,
                   attr(*l, "floor").f,
                   flag(*l, "log")};
  return launchElements(*l,
                        RateBody{elem::dataOf<double>(l->outs[0]), elem::dataOf<double>(l->ins[0]),
                                 elem::dataOf<int64_t>(l->ins[1]), elem::dataOf<uint8_t>(l->ins[2]),
                                 rule},
                        stridedOf(l->outs[0], l->ins[0]));
}

const char *advance(const DsLaunch *l, void *) {
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(*l,
                          AdvanceBody<T>{elem::dataOf<T>(l->outs[0]), elem::dataOf<T>(l->ins[0]),
                                         elem::dataOf<uint8_t>(l->ins[1]), attr(*l, "mul").f,
                                         attr(*l, "add").f},
                          stridedOf(l->outs[0], l->ins[0]));
  };
  if (static_cast<DType>(l->ins[0].dtype) == DType::I64)
    return run(elem::Tag<int64_t>());
  return run(elem::Tag<double>());
}

} // namespace ds::cuda
