// SPDX-License-Identifier: Apache-2.0
//
// The cpu device's kernels at the shapes of GPT-2 124M, 4 sequences of 256 tokens, fp32. Columns: time, and
// GFLOP/s for matrix products or GB/s (operands read plus results written, once each) for the rest.
//   bench --benchmark_filter='matmul'
// DS_BENCH_THREADS=1 changes the thread count (default 2). DS_BENCH_CPU_TIME=1 takes the rates from the main
// thread's processor time, which says more than elapsed time on a busy machine.
#include "test/bench/KernelShapes.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

#ifdef DS_HAVE_CPU_DEVICE

namespace ds::test {
namespace {

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
  using benchmark::Counter;
  const auto perSecond = Counter::kIsIterationInvariantRate;
  if (flops > 0)
    state.counters["GFLOP/s"] = Counter(flops / 1e9, perSecond);
  else
    state.counters["GB/s"] = Counter(bytesOf(c) / 1e9, perSecond);
}

/// The case is made when its benchmark first runs, and freed after it.
void add(const ShapeCase &c) {
  auto *b = benchmark::RegisterBenchmark(
      c.name.c_str(), [=](benchmark::State &state) { bench(state, c.make(), c.flops); });
  b->Unit(benchmark::kMillisecond);
  if (!std::getenv("DS_BENCH_CPU_TIME"))
    b->UseRealTime();
}

[[maybe_unused]] const bool registered = [] {
  for (const ShapeCase &c : gpt2Kernels())
    add(c);
  return true;
}();

} // namespace
} // namespace ds::test

#endif
