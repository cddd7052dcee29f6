// SPDX-License-Identifier: Apache-2.0
//
// The cpu device's kernels at the shapes of GPT-2 124M, 4 sequences of 256 tokens, fp32. Columns: time, and
// GFLOP/s for matrix products or GB/s (operands read plus results written, once each) for the rest.
//   bench --benchmark_filter='matmul'
// DS_BENCH_THREADS=1 changes the thread count (default 2). DS_BENCH_CPU_TIME=1 takes the rates from the main
// thread's processor time, which says more than elapsed time on a busy machine.
#include "test/unit/KernelHarness.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#ifdef DS_HAVE_CPU_DEVICE

namespace ds::test {
namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t kB = 4, kT = 256, kRows = kB * kT, kC = 768, kHeads = 12, kHead = 64, kV = 50257;

Tensor numbersOf(Dims dims, double low = -1, double high = 1, DType t = DType::F32) {
  uint64_t seed = 88172645463325252u;
  return tensor(t, std::move(dims), [=]() mutable {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    double x = low + (high - low) * static_cast<double>(seed >> 11) / 9007199254740992.0;
    return isFloat(t) ? x : static_cast<double>(static_cast<int64_t>(x));
  });
}
Tensor like(Dims dims, DType t = DType::F32) { return {t, std::move(dims), {}, Layout::Dense}; }
Tensor scalarOf(double v, DType t = DType::F64, Dims dims = {}) {
  return tensor(t, std::move(dims), [=] { return v; });
}

int threads() {
  const char *text = std::getenv("DS_BENCH_THREADS");
  return text ? std::atoi(text) : 2;
}

void bench(benchmark::State &state, const KernelCase &c, double flops) {
  const DsKernel *kernel = findKernel(cpuKernels(), c.op.c_str(), c.ins[0].dtype);
  PreparedKernel k(*kernel, c, {threads(), 0});
  if (const char *message = k.run()) { // touches everything once
    state.SkipWithError(message);
    return;
  }
  for (auto _ : state)
    k.run();
  double bytes = 0;
  for (const auto *list : {&c.ins, &c.outs})
    for (const Tensor &t : *list)
      bytes += static_cast<double>(t.elems() * byteSize(t.dtype));
  using benchmark::Counter;
  const auto perSecond = Counter::kIsIterationInvariantRate;
  if (flops > 0)
    state.counters["GFLOP/s"] = Counter(flops / 1e9, perSecond);
  else
    state.counters["GB/s"] = Counter(bytes / 1e9, perSecond);
}

/// The case is made when its benchmark first runs, and freed after it.
void add(const char *name, KernelCase (*make)(), double flops = 0) {
  auto *b = benchmark::RegisterBenchmark(
      name, [=](benchmark::State &state) { bench(state, make(), flops); });
  b->Unit(benchmark::kMillisecond);
  if (!std::getenv("DS_BENCH_CPU_TIME"))
    b->UseRealTime();
}

KernelCase unary(const char *op, Dims d, Attrs a = {}) {
  return {"", op, std::move(a), {numbersOf(d, -3, 3)}, {like(d)}, {}, {}};
}
KernelCase binary(const char *op, Dims a, Dims b, Attrs attrs = {}) {
  return {"", op, std::move(attrs), {numbersOf(a), numbersOf(b)}, {like(a)}, {}, {}};
}
KernelCase matmul(Dims a, Dims b, Dims out, bool ta = false, bool tb = false) {
  return {"",
          "matmul",
          Attrs{{"trans_a", ta}, {"trans_b", tb}},
          {numbersOf(a), numbersOf(b)},
          {like(out)},
          {},
          {}};
}

const Dims kX = {kB, kT, kC}, kHidden = {kB, kT, 4 * kC}, kScores = {kB, kHeads, kT, kT},
           kQ = {kB, kHeads, kT, kHead};
constexpr double kGemm = 2.0 * kRows * kC;
constexpr double kAttention = 2.0 * kB * kHeads * kT * kT * kHead;

[[maybe_unused]] const bool registered = [] {
  add(
      "matmul qkv x W",
      [] {
        return matmul(kX, {kC, 3 * kC}, {kB, kT, 3 * kC});
      },
      kGemm * 3 * kC);
  add(
      "matmul proj x W",
      [] {
        return matmul(kX, {kC, kC}, kX);
      },
      kGemm * kC);
  add(
      "matmul fc x W",
      [] {
        return matmul(kX, {kC, 4 * kC}, kHidden);
      },
      kGemm * 4 * kC);
  add(
      "matmul fcproj x W",
      [] {
        return matmul(kHidden, {4 * kC, kC}, kX);
      },
      kGemm * 4 * kC);
  add(
      "matmul fc dy W^T",
      [] {
        return matmul(kHidden, {kC, 4 * kC}, kX, false, true);
      },
      kGemm * 4 * kC);
  add(
      "matmul fc x^T dy",
      [] {
        return matmul({kRows, kC}, {kRows, 4 * kC}, {kC, 4 * kC}, true);
      },
      kGemm * 4 * kC);
  add(
      "matmul head x W^T",
      [] {
        return matmul(kX, {kV, kC}, {kB, kT, kV}, false, true);
      },
      kGemm * kV);
  add(
      "matmul head dy W",
      [] {
        return matmul({kB, kT, kV}, {kV, kC}, kX);
      },
      kGemm * kV);
  add(
      "matmul head dy^T x",
      [] {
        return matmul({kRows, kV}, {kRows, kC}, {kV, kC}, true);
      },
      kGemm * kV);
  add(
      "matmul q k^T", [] { return matmul(kQ, kQ, kScores, false, true); }, kAttention);
  add(
      "matmul p v", [] { return matmul(kScores, kQ, kQ); }, kAttention);
  add(
      "matmul p^T dy", [] { return matmul(kScores, kQ, kQ, true); }, kAttention);

  add("add residual", [] { return binary("add", kX, kX); });
  add("add bias", [] { return binary("add", kHidden, {4 * kC}); });
  add("mul scalar", [] { return binary("mul", kScores, {}); });
  add("add mask", [] { return binary("add", kScores, {1, 1, kT, kT}); });
  add("gelu tanh", [] { return unary("gelu", kHidden, Attrs{{"tanh", true}}); });
  add("gelu erf", [] { return unary("gelu", kHidden); });
  add("gelu_grad tanh", [] {
    return binary("gelu_grad", kHidden, kHidden, Attrs{{"tanh", true}});
  });
  add("tanh", [] { return unary("tanh", kHidden); });
  add("exp", [] { return unary("exp", kHidden); });
  add("erf", [] { return unary("erf", kHidden); });
  add("pow 3", [] {
    return KernelCase{"", "pow", {}, {numbersOf(kHidden), scalarOf(3, DType::F32)}, {like(kHidden)},
                      {}, {}};
  });
  add("where mask", [] {
    return KernelCase{"",
                      "where",
                      {},
                      {numbersOf({1, 1, kT, kT}, 0, 2, DType::Bool), numbersOf(kScores),
                       scalarOf(-1e9, DType::F32)},
                      {like(kScores)},
                      {},
                      {}};
  });
  add("softmax", [] { return unary("softmax", kScores); });
  add("softmax_grad", [] { return binary("softmax_grad", kScores, kScores); });
  add("layer_norm", [] {
    return KernelCase{"",
                      "layer_norm",
                      {},
                      {numbersOf(kX), numbersOf({kC}), numbersOf({kC})},
                      {like(kX), like({kB, kT}), like({kB, kT})},
                      {},
                      {}};
  });
  add("layer_norm_grad", [] {
    return KernelCase{"",
                      "layer_norm_grad",
                      {},
                      {numbersOf(kX), numbersOf(kX), numbersOf({kC}), numbersOf({kB, kT}),
                       numbersOf({kB, kT}, 1, 2)},
                      {like(kX), like({kC}), like({kC})},
                      {},
                      {}};
  });
  add("reduce_sum rows", [] {
    return KernelCase{
        "", "reduce_sum", Attrs{{"axes", Dims{0, 1}}}, {numbersOf(kHidden)}, {like({4 * kC})}, {},
        {}};
  });
  add("reduce_sum last", [] {
    return KernelCase{"",
                      "reduce_sum",
                      Attrs{{"axes", Dims{3}}},
                      {numbersOf(kScores)},
                      {like({kB, kHeads, kT})},
                      {},
                      {}};
  });
  add("reduce_max last", [] {
    return KernelCase{"",
                      "reduce_max",
                      Attrs{{"axes", Dims{3}}},
                      {numbersOf(kScores)},
                      {like({kB, kHeads, kT})},
                      {},
                      {}};
  });
  add("transpose 0213", [] {
    return KernelCase{"",
                      "transpose",
                      Attrs{{"perm", Dims{0, 2, 1, 3}}},
                      {numbersOf({kB, kT, kHeads, kHead})},
                      {like(kQ)},
                      {},
                      {}};
  });
  add("transpose 0132", [] {
    return KernelCase{"",
                      "transpose",
                      Attrs{{"perm", Dims{0, 1, 3, 2}}},
                      {numbersOf(kQ)},
                      {like({kB, kHeads, kHead, kT})},
                      {},
                      {}};
  });
  add("slice qkv", [] {
    return KernelCase{"",
                      "slice",
                      Attrs{{"starts", Dims{0, 0, kC}},
                            {"limits", Dims{kB, kT, 2 * kC}},
                            {"strides", Dims{1, 1, 1}}},
                      {numbersOf({kB, kT, 3 * kC})},
                      {like(kX)},
                      {},
                      {}};
  });
  add("concat qkv", [] {
    return KernelCase{"",
                      "concat",
                      Attrs{{"axis", int64_t(2)}},
                      {numbersOf(kX), numbersOf(kX), numbersOf(kX)},
                      {like({kB, kT, 3 * kC})},
                      {},
                      {}};
  });
  add("gather tokens", [] {
    return KernelCase{
        "",         "gather", {}, {numbersOf({kV, kC}), numbersOf({kB, kT}, 0, kV, DType::I64)},
        {like(kX)}, {},       {}};
  });
  add("gather_grad tokens", [] {
    return KernelCase{"",
                      "gather_grad",
                      Attrs{{"dims", Dims{kV, kC}}},
                      {numbersOf(kX), numbersOf({kB, kT}, 0, kV, DType::I64)},
                      {like({kV, kC})},
                      {},
                      {}};
  });
  add("cross_entropy", [] {
    return KernelCase{
        "",
        "cross_entropy",
        {},
        {numbersOf({kB, kT, kV}), numbersOf({kB, kT}, 0, kV, DType::I64), scalarOf(1.0 / kRows)},
        {like({}), like({kB, kT})},
        {},
        {}};
  });
  add("cross_entropy_grad", [] {
    return KernelCase{"",
                      "cross_entropy_grad",
                      {},
                      {numbersOf({kB, kT, kV}), numbersOf({kB, kT}, 0, kV, DType::I64),
                       numbersOf({kB, kT}, 10, 12), scalarOf(1.0 / kRows)},
                      {like({kB, kT, kV})},
                      {},
                      {}};
  });
  add("accumulate", [] {
    return KernelCase{
        "", "accumulate", {}, {numbersOf({kV * kC}), numbersOf({kV * kC})}, {like({kV * kC})}, {0},
        {}};
  });
  add("sum_squares", [] {
    return KernelCase{"", "sum_squares", {}, {numbersOf({kV * kC})}, {like({67}, DType::I64)}, {},
                      {}};
  });
  add("adam", [] {
    Dims n = {kV * kC};
    return KernelCase{"",
                      "adam",
                      {},
                      {numbersOf(n), numbersOf(n), numbersOf(n), numbersOf(n, 0, 1),
                       scalarOf(1e-3, DType::F64, {1}), scalarOf(0.1, DType::F64, {1}), scalarOf(1),
                       scalarOf(0, DType::Bool), scalarOf(0.9), scalarOf(0.999)},
                      {like(n), like(n), like(n)},
                      {1, 2, 3},
                      {}};
  });
  return true;
}();

} // namespace
} // namespace ds::test

#endif
