// SPDX-License-Identifier: Apache-2.0
//
// The host optimizer on a vector far larger than the caches, against STREAM's triad a = b + s * c on arrays of the same
// total size. Bytes are counted as STREAM counts them, without what a write reads first: 24 for each triad element of
// f64; for each parameter 28 (gradient, weight, two moments read; weight and moments written), and 2 more for adam_round.
// "streamed" writes past the caches, so that nothing is read first: the most the memory can do.
//   bench --benchmark_filter='^host'      DS_BENCH_ELEMS: parameters (64M), DS_BENCH_THREADS: threads (2)
#include "kernels/Registry.h"
#include "runtime/Arena.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#if defined(DS_HAVE_CPU_DEVICE) && defined(__x86_64__)
#include <immintrin.h>

namespace ds::test {
namespace {

/// adam or adam_round on vectors of its own.
class HostAdam {
public:
  /// to: bf16 or f16 for adam_round, f32 for adam.
  HostAdam(int64_t n, int threads, DType to)
      : n(n), to(to), arena(Arena::map(5 * bytes(), 0).take()),
        kernel(findKernel(cpuKernels(), rounds() ? "adam_round" : "adam", DType::F32)) {
    for (int64_t i = 0; i < n; ++i) {
      auto x = static_cast<float>((i * 7919) % 1009) * 1e-3f;
      vector(0)[i] = x - 0.5f;
      vector(1)[i] = 0.7f - x;
      vector(2)[i] = x * 0.1f;
      vector(3)[i] = x * 0.01f;
    }
    for (int i = 0; i < 4; ++i)
      ins[i] = tensor(vector(i), DType::F32);
    ins[4] = ins[5] = {rates.data(), &one, &one, 1, static_cast<uint8_t>(DType::F64)};
    for (int i : {6, 8, 9})
      ins[i] = {&scalars[i], &one, &one, 0, static_cast<uint8_t>(DType::F64)};
    ins[7] = {&skip, &one, &one, 0, static_cast<uint8_t>(DType::Bool)};
    if (rounds())
      outs.push_back(tensor(rounded(), to));
    for (int i = 1; i < 4; ++i)
      outs.push_back(ins[i]);
    attrs = {{"b1", 'f', 0, 0.9, nullptr, nullptr, 0},
             {"b2", 'f', 0, 0.999, nullptr, nullptr, 0},
             {"eps", 'f', 0, 1e-8, nullptr, nullptr, 0},
             {"decoupled", 'b', 1, 0, nullptr, nullptr, 0},
             {"bias_correction", 'b', 1, 0, nullptr, nullptr, 0}};
    launch.ins = ins.data();
    launch.outs = outs.data();
    launch.numIns = 10;
    launch.numOuts = static_cast<int32_t>(outs.size());
    launch.attrs = attrs.data();
    launch.numAttrs = static_cast<int32_t>(attrs.size());
    launch.threads = threads;
    launch.world = 1;
    error = kernel->prepare(&launch, &state);
  }
  ~HostAdam() {
    if (state)
      kernel->destroy(state);
  }
  HostAdam(const HostAdam &) = delete;

  /// A message, or null.
  const char *run() { return error ? error : kernel->run(&launch, state); }
  /// g, p, m, v
  float *vector(int i) const { return reinterpret_cast<float *>(arena.data() + i * bytes()); }
  uint16_t *rounded() const { return reinterpret_cast<uint16_t *>(arena.data() + 4 * bytes()); }
  bool rounds() const { return to != DType::F32; }

private:
  // Vectors that lie a large power of two apart compete for the same banks of the memory.
  int64_t bytes() const { return (n * 4 + 4095) / 4096 * 4096 + 17 * 4096; }
  DsTensor tensor(void *data, DType t) { return {data, &n, &one, 1, static_cast<uint8_t>(t)}; }

  const int64_t n, one = 1;
  const DType to;
  Arena arena;
  const DsKernel *kernel;
  std::array<double, 1> rates{1e-3};
  std::array<double, 10> scalars{0, 0, 0, 0, 0, 0, 0.9, 0, 0.81, 0.998};
  uint8_t skip = 0;
  std::array<DsTensor, 10> ins{};
  std::vector<DsTensor> outs;
  std::vector<DsAttr> attrs;
  DsLaunch launch{};
  void *state = nullptr;
  const char *error = nullptr;
};

int64_t number(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}
int64_t elems() { return number("DS_BENCH_ELEMS", int64_t{64} << 20); }
int threads() { return static_cast<int>(number("DS_BENCH_THREADS", 2)); }

/// Medians, for neighbours on the machine make some runs slow.
void measure(benchmark::State &state, double bytes, const std::function<void()> &run) {
  run(); // touches everything once
  std::vector<double> seconds;
  for (auto _ : state) {
    auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  state.counters["ms"] = *middle * 1e3;
  state.counters["GB/s"] = bytes / *middle / 1e9;
}

void adam(benchmark::State &state, DType to) {
  HostAdam a(elems(), threads(), to);
  const char *message = nullptr;
  measure(state, static_cast<double>(elems()) * (a.rounds() ? 30 : 28), [&] { message = a.run(); });
  if (message)
    state.SkipWithError(message);
}

[[gnu::optimize("O3"), gnu::target_clones("avx512f", "avx2", "default")]] void
triadRange(double *__restrict a, const double *__restrict b, const double *__restrict c,
           int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    a[i] = b[i] + 3.0 * c[i];
}

[[gnu::target("avx512f")]] void triadStreamed(double *a, const double *b, const double *c,
                                              int64_t n) {
  const __m512d s = _mm512_set1_pd(3.0);
  for (int64_t i = 0; i < n; i += 8)
    _mm512_stream_pd(
        a + i, _mm512_add_pd(_mm512_loadu_pd(b + i), _mm512_mul_pd(s, _mm512_loadu_pd(c + i))));
  _mm_sfence();
}
[[gnu::target("default")]] void triadStreamed(double *a, const double *b, const double *c,
                                              int64_t n) {
  const __m128d s = _mm_set1_pd(3.0);
  for (int64_t i = 0; i < n; i += 2)
    _mm_stream_pd(a + i, _mm_add_pd(_mm_loadu_pd(b + i), _mm_mul_pd(s, _mm_loadu_pd(c + i))));
  _mm_sfence();
}

constexpr int64_t kSkew = 17 * 512; // as between the optimizer's vectors

void triad(benchmark::State &state, bool streamed) {
  const int64_t n = elems() / 2 / 1024 * 1024; // as f64, the bytes of a vector of the optimizer
  auto arena = Arena::map(3 * (n + kSkew) * 8, 0);
  if (!arena.ok()) {
    state.SkipWithError("no memory");
    return;
  }
  auto *a = reinterpret_cast<double *>(arena->data()), *b = a + n + kSkew, *c = b + n + kSkew;
  const int all = threads();
  measure(state, static_cast<double>(n) * 24, [&] {
#pragma omp parallel for num_threads(all) schedule(static)
    for (int t = 0; t < all; ++t) {
      const int64_t begin = n * t / all / 8 * 8, end = n * (t + 1) / all / 8 * 8;
      if (streamed)
        triadStreamed(a + begin, b + begin, c + begin, end - begin);
      else
        triadRange(a + begin, b + begin, c + begin, end - begin);
    }
    benchmark::ClobberMemory();
  });
}

[[maybe_unused]] const bool registered = [] {
  auto add = [](const char *name, auto f) {
    benchmark::RegisterBenchmark(name, f)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("host/triad", [](benchmark::State &s) { triad(s, false); });
  add("host/triad_streamed", [](benchmark::State &s) { triad(s, true); });
  add("host/adam", [](benchmark::State &s) { adam(s, DType::F32); });
  add("host/adam_round", [](benchmark::State &s) { adam(s, DType::BF16); });
  return true;
}();

} // namespace
} // namespace ds::test

#endif
