// SPDX-License-Identifier: Apache-2.0
#include "test/bench/KernelShapes.h"
#include "test/gpu/Gpu.h"
#include "test/unit/CudaParity.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

namespace ds::test {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of one of many that are enqueued together; the best of three rounds. Negative: `error` says why.
template <typename Enqueue>
double secondsOf(const Gpu &gpu, double atLeast, const char *&error, Enqueue enqueue) {
  double best = -1;
  int64_t count = 1;
  for (int round = 0; round < 3;) {
    double begin = now();
    for (int64_t i = 0; i < count; ++i)
      if ((error = enqueue()))
        return -1;
    if ((error = gpu.api.streamSync(gpu.options.stream)))
      return -1;
    double took = now() - begin;
    if (took < atLeast && count < 1 << 20) { // too short to count
      count = std::max(count + 1, static_cast<int64_t>(static_cast<double>(count) * 1.2 * atLeast /
                                                       std::max(took, atLeast / 50)));
      continue;
    }
    double one = took / static_cast<double>(count);
    best = best < 0 ? one : std::min(best, one);
    ++round;
  }
  return best;
}

struct Block {
  const DsDeviceApi &api;
  DsMemory memory;
  void *p = nullptr;
  ~Block() {
    if (p)
      api.release(memory, p);
  }
};

const char *measureCopies(const Gpu &gpu, const SpeedOptions &o) {
  Block a{gpu.api, DsMemoryDevice}, b{gpu.api, DsMemoryDevice}, host{gpu.api, DsMemoryPinned};
  auto bytes = static_cast<size_t>(o.copyBytes);
  for (Block *block : {&a, &b, &host})
    if (const char *m = gpu.api.allocate(block->memory, bytes, &block->p))
      return m;
  struct {
    const char *name;
    void *to, *from;
    double passes; // over the device's memory
  } copies[] = {{"copy on the device", b.p, a.p, 2},
                {"copy to the host", host.p, a.p, 1},
                {"copy from the host", a.p, host.p, 1}};
  for (auto &c : copies) {
    const char *error = nullptr;
    double s = secondsOf(gpu, o.seconds, error,
                         [&] { return gpu.api.copy(c.to, c.from, bytes, gpu.options.stream); });
    if (error)
      return error;
    std::printf("{\"ceiling\": \"%s\", \"us\": %.2f, \"GB/s\": %.2f}\n", c.name, s * 1e6,
                c.passes * static_cast<double>(bytes) / s / 1e9);
    std::fflush(stdout);
  }
  const char *error = nullptr;
  double s =
      secondsOf(gpu, o.seconds, error, [&] { return gpu.api.fill(a.p, 0, 4, gpu.options.stream); });
  if (!error)
    std::printf("{\"ceiling\": \"shortest operation\", \"us\": %.2f}\n", s * 1e6);
  return error;
}

const char *measureKernel(const Gpu &gpu, const SpeedOptions &o, const char *kind,
                          const std::string &name, const KernelCase &c, double flops) {
  printBegin(name);
  const DsKernel *kernel = kernelOf(gpu.kernels, c);
  if (!kernel) {
    std::printf("{\"%s\": %s, \"skipped\": \"the device has no row\"}\n", kind,
                quoted(name).c_str());
    return nullptr;
  }
  PreparedKernel k(*kernel, c, gpu.options);
  if (const char *m = k.run()) {
    std::printf("{\"%s\": %s, \"error\": %s}\n", kind, quoted(name).c_str(), quoted(m).c_str());
    std::fflush(stdout);
    return gpu.api.streamSync(gpu.options.stream);
  }
  const char *error = nullptr;
  double s = secondsOf(gpu, o.seconds, error, [&] { return k.enqueue(); });
  if (error)
    return error;
  std::printf("{\"%s\": %s, \"us\": %.2f, \"GB/s\": %.2f", kind, quoted(name).c_str(), s * 1e6,
              bytesOf(c) / s / 1e9);
  if (flops > 0)
    std::printf(", \"TFLOP/s\": %.4f", flops / s / 1e12);
  std::printf("}\n");
  std::fflush(stdout);
  return nullptr;
}

KernelCase square(int64_t n) {
  Tensor x = tensor(DType::F32, {1, n}, [i = 0]() mutable { return (i++ * 37 % 101) / 50.0 - 1; });
  x.dims = {n, n}; // rows repeat
  return {"",
          "matmul",
          Attrs{{"trans_a", false}, {"trans_b", false}},
          {x, x},
          {{DType::F32, {n, n}, {}}},
          {},
          {}};
}

// Windows of 3 x 3 that move by 1.
KernelCase convolution(const std::string &op, const SpeedOptions &o) {
  std::vector<int64_t> x = {o.images, o.channels, o.extent, o.extent},
                       w = {o.channels, o.channels, 3, 3};
  Attrs attrs{{"low", std::vector<int64_t>{1, 1}}, {"high", std::vector<int64_t>{1, 1}}};
  bool forWeight = op == "conv_grad_weight";
  if (op != "conv")
    attrs.set("dims", forWeight ? w : x);
  auto next = [i = 0]() mutable { return (i++ * 37 % 101) / 50.0 - 1; };
  return {"",
          op,
          attrs,
          {tensor(DType::F32, x, next), tensor(DType::F32, forWeight ? x : w, next)},
          {{DType::F32, forWeight ? w : x, {}}},
          {},
          {}};
}

} // namespace

const char *measureSpeed(const Gpu &gpu, const SpeedOptions &o) {
  if (!o.without.count("copies")) {
    printBegin("copies");
    if (const char *m = measureCopies(gpu, o))
      return m;
  }
  constexpr int64_t kAny = INT64_MAX;
  for (bool half : {false, true}) {
    if (o.without.count(half ? "product bf16" : "product f32"))
      continue;
    KernelCase c = square(o.square);
    if (half && !inHalf(c, DType::BF16, kAny))
      return "matmul has no bf16";
    auto n = static_cast<double>(o.square);
    if (const char *m = measureKernel(gpu, o, "ceiling", half ? "product bf16" : "product f32", c,
                                      2 * n * n * n))
      return m;
  }
  std::set<std::string> ops;
  for (const ShapeCase &s : gpt2Kernels({o.batch, o.seq, o.width, o.heads, o.vocab}))
    for (bool half : {false, true}) {
      if (o.without.count(s.name + (half ? " bf16" : " f32")))
        continue;
      KernelCase c = s.make();
      if (o.oneOfEachOp && !ops.insert(c.op).second)
        continue;
      if (half && !inHalf(c, DType::BF16, kAny))
        continue;
      if (const char *m =
              measureKernel(gpu, o, "kernel", s.name + (half ? " bf16" : " f32"), c, s.flops))
        return m;
    }
  double products = 9.0 * static_cast<double>(o.images * o.extent * o.extent) *
                    static_cast<double>(o.channels * o.channels);
  for (const char *op : {"conv", "conv_grad_input", "conv_grad_weight"})
    for (bool half : {false, true}) {
      if (o.without.count(std::string(op) + (half ? " bf16" : " f32")))
        continue;
      KernelCase c = convolution(op, o);
      if (half && !inHalf(c, DType::BF16, kAny))
        continue;
      if (const char *m = measureKernel(
              gpu, o, "kernel", std::string(op) + (half ? " bf16" : " f32"), c, 2 * products))
        return m;
    }
  return nullptr;
}

} // namespace ds::test
