// SPDX-License-Identifier: Apache-2.0
//
// The CUDA rows of Kernels.def, emulated on the CPU, against `ref`: within the op's allowance, with the same bits whatever the
// order in which threads and blocks take turns, and wherever operands lie. The real memory model is not seen here.
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/CudaParity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

constexpr int64_t kLargest = 5000; // elements; fibers are slow

KernelTable cudaKernels() {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  return {p->kernels, p->numKernels};
}
const DsDeviceApi &api() { return *ds_plugin_entry(DS_ABI, DS_BUILD)->api; }

/// One stream for all tests of the process.
RunOptions onDevice() {
  static void *stream = [] {
    void *s = nullptr;
    EXPECT_EQ(api().streamCreate(&s), nullptr);
    return s;
  }();
  RunOptions o;
  o.api = &api();
  o.stream = stream;
  return o;
}

int64_t elemsOf(const KernelCase &c) {
  int64_t n = 0;
  for (const Tensor &t : c.ins)
    n += t.elems();
  return n;
}

/// Own kernels do everything meanwhile.
struct WithoutLibraries {
  WithoutLibraries() { setenv("DS_CUDA_LIBRARIES", "none", 1); }
  ~WithoutLibraries() { unsetenv("DS_CUDA_LIBRARIES"); }
};

/// Whether the case is of a 16-bit type whose kernel another type's case runs.
bool isSameInHalf(const KernelCase &c) {
  return !c.ins.empty() && isHalf(c.ins[0].dtype) &&
         (c.ins[0].dtype == DType::F16 || !hasHalfKernel(c.op));
}

class CudaKernels : public testing::TestWithParam<std::string> {
  void TearDown() override {
    emulated::setOrder(emulated::Order::Forward);
    emulated::skipBarrier("");
  }
};

TEST_P(CudaKernels, MatchRefInEveryOrder) {
  const std::string op = GetParam();
  std::vector<KernelCase> cases = deviceCases(op, kLargest);
  ASSERT_FALSE(cases.empty()) << "no cases for " << op;
  int ran = 0;
  for (const KernelCase &c : cases) {
    emulated::setOrder(emulated::Order::Forward);
    ParityResult p = compareWithRef(cudaKernels(), c, onDevice());
    ASSERT_EQ(p.difference, "") << c.name;
    ran += p.ran;
    if (!p.ran || c.ins.empty())
      continue;
    const DsKernel *cuda = kernelOf(cudaKernels(), c);
    if (!cuda->prepare && (isHalf(c.ins[0].dtype) || !hasHalfKernel(op))) { // uses no library
      RunOptions misaligned = onDevice();
      misaligned.misalign = 1;
      ASSERT_EQ(runKernel(*cuda, c, misaligned).bytes, p.got.bytes)
          << c.name << ": depends on alignment";
    }
    if (isSameInHalf(c))
      continue; // the same kernel
    for (auto [order, seed] :
         {std::pair(emulated::Order::Reverse, 0), {emulated::Order::Random, 7}}) {
      emulated::setOrder(order, static_cast<uint64_t>(seed));
      ASSERT_EQ(runKernel(*cuda, c, onDevice()).bytes, p.got.bytes)
          << c.name << ": depends on the order";
    }
  }
  EXPECT_GT(ran, 0);
}

std::vector<std::string> rows() {
  std::vector<std::string> ops;
  for (size_t i = 0; i < cudaKernels().count; ++i)
    ops.push_back(cudaKernels().rows[i].op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaKernels, testing::ValuesIn(rows()),
                         [](const auto &info) { return info.param; });

/// What goes wrong in one of the cases in one of the orders, or "".
std::string anyFailure(std::vector<KernelCase> cases) {
  std::stable_sort(cases.begin(), cases.end(), [](const KernelCase &a, const KernelCase &b) {
    return elemsOf(a) > elemsOf(b);
  });
  // The largest come first: they find most.
  for (const KernelCase &c : cases) {
    const DsKernel *cuda = kernelOf(cudaKernels(), c);
    if (!cuda || !isRowMajor(c) || isSameInHalf(c))
      continue;
    RunResult want = runKernel(*kernelOf(refKernels(), c), c);
    for (auto order :
         {emulated::Order::Forward, emulated::Order::Reverse, emulated::Order::Random}) {
      emulated::setOrder(order, 3);
      std::string d = difference(c, want, runKernel(*cuda, c, onDevice()), deviceAllowance(c));
      emulated::failCall("", 0); // the error has stuck
      if (!d.empty())
        return d;
    }
  }
  return "";
}

// Each barrier is taken out of the kernels that come to it.
TEST(CudaBarriersSlow, EveryOneMatters) {
  WithoutLibraries own;
  std::map<std::string, std::vector<std::string>>
      users; // by barrier: the ops whose kernels come to it
  for (const std::string &op : rows()) {
    emulated::forgetBarriers();
    ASSERT_EQ(anyFailure(deviceCases(op, kLargest)), "") << op;
    for (const std::string &site : emulated::barriersSeen())
      users[site].push_back(op);
  }
  EXPECT_GE(users.size(), 5u);
  for (const auto &[site, ops] : users) {
    emulated::skipBarrier(site);
    std::string found;
    for (size_t k = 0; k < ops.size() && found.empty(); ++k)
      found = anyFailure(deviceCases(ops[k], kLargest));
    emulated::skipBarrier("");
    emulated::setOrder(emulated::Order::Forward);
    EXPECT_NE(found, "") << ops[0] << ": nothing is wrong without the barrier at " << site;
  }
}

#ifdef DS_HAVE_CPU_DEVICE
// From equal gradients, states on the two devices are equal.
TEST(CudaOptimizers, BitsAreThoseOfTheCpu) {
  int ran = 0;
  emulated::setChecks(false); // no shared memory here
  for (const char *op : {"adam", "adam_round", "sgd"})
    for (const KernelCase &c : deviceCases(op, kLargest)) {
      const DsKernel *cuda = kernelOf(cudaKernels(), c), *cpu = kernelOf(cpuKernels(), c);
      if (!cuda || !cpu || !isRowMajor(c))
        continue;
      RunResult want = runKernel(*cpu, c), got = runKernel(*cuda, c, onDevice());
      ASSERT_EQ(got.error, want.error) << c.name;
      EXPECT_EQ(got.bytes, want.bytes) << c.name;
      ++ran;
    }
  emulated::setChecks(true);
  EXPECT_GE(ran, 10);
}
#endif
// What a library computes, our kernels compute, too.
TEST_P(CudaKernels, MatchWithoutLibraries) {
  WithoutLibraries own;
  for (const KernelCase &c : deviceCases(GetParam(), kLargest)) {
    const DsKernel *cuda = kernelOf(cudaKernels(), c);
    if (!cuda || !cuda->prepare)
      continue; // uses none
    ASSERT_EQ(compareWithRef(cudaKernels(), c, onDevice()).difference, "") << c.name;
  }
}

// What fuse-residual makes has the bits of what it replaces.
TEST(CudaFused, AdditionsOfNormsKeepTheirBits) {
  int ran = 0;
  for (const char *op : {"add_layer_norm", "add_rms_norm", "layer_norm_grad", "rms_norm_grad"})
    for (const KernelCase &c : deviceCases(op, kLargest)) {
      if (!isRowMajor(c) || (*op != 'a' && c.ins.size() < (*op == 'l' ? 6u : 5u)))
        continue;
      ASSERT_EQ(runKernel(*kernelOf(cudaKernels(), c), c, onDevice()).bytes,
                runApart(cudaKernels(), c, onDevice()).bytes)
          << c.name;
      ++ran;
    }
  EXPECT_GT(ran, 20);
}

TEST(CudaFaults, LabelsAndIndicesAreTold) {
  auto one = [](DType t, std::vector<int64_t> dims, double v) {
    return tensor(t, std::move(dims), [=] { return v; });
  };
  Tensor x = one(DType::F32, {4, 3}, 1);
  KernelCase g{"", "gather", Attrs{}, {x, one(DType::I64, {2}, -5)}, {{DType::F32, {2, 3}, {}}},
               {}, {}};
  EXPECT_EQ(runKernel(*findKernel(cudaKernels(), "gather", DType::F32), g, onDevice()).error,
            "fault 2: -5, 4");
  KernelCase c{"",
               "cross_entropy",
               Attrs{},
               {x, one(DType::I64, {4}, 3), one(DType::F64, {}, 1)},
               {{DType::F32, {}, {}}, {DType::F32, {4}, {}}},
               {},
               {}};
  EXPECT_EQ(runKernel(*findKernel(cudaKernels(), "cross_entropy", DType::F32), c, onDevice()).error,
            "fault 1: 3, 3");
  KernelCase fused{"",
                   "linear_cross_entropy",
                   Attrs{},
                   {x, one(DType::F32, {3, 3}, 1), one(DType::I64, {4}, 3), one(DType::F64, {}, 1)},
                   {{DType::F32, {}, {}}},
                   {},
                   {}};
  EXPECT_EQ(
      runKernel(*findKernel(cudaKernels(), fused.op.c_str(), DType::F32), fused, onDevice()).error,
      "fault 1: 3, 3");
  for (const char *op : {"div", "mod"}) {
    KernelCase z{"",
                 op,
                 Attrs{},
                 {one(DType::I32, {3}, 7), one(DType::I32, {3}, 0)},
                 {{DType::I32, {3}, {}}},
                 {},
                 {}};
    EXPECT_EQ(runKernel(*findKernel(cudaKernels(), op, DType::I32), z, onDevice()).error,
              "fault 3: 7, 0");
  }
}

} // namespace
} // namespace ds::test
