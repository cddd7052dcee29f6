// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's libraries, emulated: what they are given is within its bounds, their choices are the same every time, and each call
// that fails is told.
#include "kernels/cuda/Library.h"
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/CpuCases.h"

#include <gmock/gmock.h>

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

using testing::HasSubstr;

const DsKernel &matmul() {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  return *findKernel({p->kernels, p->numKernels}, "matmul", DType::F32);
}

RunOptions onDevice() {
  static const DsDeviceApi &api = *ds_plugin_entry(DS_ABI, DS_BUILD)->api;
  static void *stream = [] {
    void *s = nullptr;
    EXPECT_EQ(api.streamCreate(&s), nullptr);
    return s;
  }();
  RunOptions o;
  o.stream = stream;
  o.api = &api;
  return o;
}

KernelCase product(Dims a, Dims b, Dims out) {
  KernelCase c{"",
               "matmul",
               Attrs{{"trans_a", false}, {"trans_b", false}},
               {f32(std::move(a), even), f32(std::move(b), even)},
               {result(DType::F32, std::move(out))},
               {},
               {}};
  return c;
}

std::string noteOf(const KernelCase &c) {
  // As the loader asks for it.
  std::string note;
  DsKernel k = matmul();
  static std::string *told;
  told = &note;
  k.destroy = [](void *state) {
    if (const char *text = matmul().note(state))
      *told = text;
    matmul().destroy(state);
  };
  EXPECT_EQ(runKernel(k, c, onDevice()).error, "");
  return note;
}

TEST(CudaLibraries, ChoicesAreTold) {
  EXPECT_EQ(noteOf(product({8, 64}, {64, 16}, {8, 16})),
            "matmul f32 8 x 16 x 64: cuBLASLt algorithm 1, tile 1, stages 1, inner axis in 2, "
            "1024 bytes");
  // A shared operand leaves one product of more rows; two batch axes that do not merge are several.
  EXPECT_THAT(noteOf(product({3, 8, 64}, {64, 16}, {3, 8, 16})), HasSubstr(" 24 x 16 x 64: "));
  EXPECT_THAT(noteOf(product({2, 1, 8, 64}, {1, 3, 64, 16}, {2, 3, 8, 16})),
              HasSubstr(" 8 x 16 x 64, batch 6: "));
  KernelCase stepped = product({8, 64}, {64, 16}, {8, 16});
  stepped.ins[0].layout = Layout::Stepped;
  EXPECT_EQ(noteOf(stepped), "") << "no axis is contiguous: our kernel";
}

TEST(CudaLibraries, AddressesDecideByAlignmentOnly) {
  KernelCase c = product({24, 100}, {100, 20}, {24, 20});
  std::vector<RunResult> results;
  for (int misalign : {0, 4, 8, 1, 3}) {
    RunOptions o = onDevice();
    o.misalign = misalign;
    results.push_back(runKernel(matmul(), c, o));
    ASSERT_EQ(results.back().error, "") << misalign;
  }
  EXPECT_EQ(results[0].bytes, results[1].bytes);
  EXPECT_EQ(results[0].bytes, results[2].bytes);
  EXPECT_EQ(results[3].bytes, results[4].bytes);
  EXPECT_NE(results[0].bytes, results[3].bytes) << "another algorithm adds in another order";
}

TEST(CudaLibraries, NoWorkspaceIsEnough) {
  RunOptions o = onDevice();
  o.noWork = true;
  EXPECT_EQ(runKernel(matmul(), product({24, 100}, {100, 20}, {24, 20}), o).error, "");
}

TEST(CudaLibraries, EachFailingCallIsTold) {
  for (const char *name : {"cudaGetDevice", "cublasLtCreate", "cublasLtMatmulDescCreate",
                           "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
                           "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate",
                           "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic",
                           "cublasLtMatmulAlgoConfigGetAttribute", "cublasLtMatmul"}) {
    onDevice();
    int64_t live = emulated::liveAllocations();
    emulated::failCall(name, 1);
    RunResult r = runKernel(matmul(), product({2, 8, 64}, {2, 64, 16}, {2, 8, 16}), onDevice());
    emulated::failCall("", 0);
    EXPECT_THAT(r.error, testing::StartsWith(std::string(name) + ": ")) << name;
    EXPECT_EQ(emulated::liveAllocations(), live) << name;
  }
}

TEST(CudaLibraries, AreFoundOrNotOrBroken) {
  void *address = nullptr;
  std::string error;
  cuda::Library l{"m", {"libnone.so.1", "libm.so.6"}, {{"cos", &address}}};
  EXPECT_EQ(cuda::openLibrary(l, &error), "libm.so.6");
  EXPECT_EQ(error, "");
  EXPECT_TRUE(address);
  l.functions.push_back({"cosOfNothing", &address});
  EXPECT_EQ(cuda::openLibrary(l, &error), "");
  EXPECT_EQ(error, "libm.so.6 has no function cosOfNothing");
  error = "";
  l.files = {"libnone.so.1"};
  EXPECT_EQ(cuda::openLibrary(l, &error), "");
  EXPECT_EQ(error, "");
}

} // namespace
} // namespace ds::test
