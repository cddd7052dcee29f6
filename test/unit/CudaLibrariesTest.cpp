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

const DsKernel &kernelOf(const std::string &op) {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  return *findKernel({p->kernels, p->numKernels}, op.c_str(), DType::F32);
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

RunResult run(const KernelCase &c, const RunOptions &o = onDevice()) {
  return runKernel(kernelOf(c.op), c, o);
}

std::string noteOf(const KernelCase &c, const RunOptions &o = onDevice()) {
  // As the loader asks for it.
  static const DsKernel *kernel;
  static std::string told;
  kernel = &kernelOf(c.op);
  told = "";
  DsKernel k = *kernel;
  k.destroy = [](void *state) {
    if (const char *text = kernel->note(state))
      told = text;
    kernel->destroy(state);
  };
  EXPECT_EQ(runKernel(k, c, o).error, "");
  return told;
}

/// y[2,8,5,4] = conv(x[2,4,h,4], w[8,2,3,3]) in two groups, or the gradient for x or w.
KernelCase convolution(const std::string &op, int64_t low = 1, int64_t high = 1) {
  Dims x = {2, 4, 7 - low - high, 4}, w = {8, 2, 3, 3}, y = {2, 8, 5, 4};
  Attrs attrs{{"low", Dims{low, 1}}, {"high", Dims{high, 1}}, {"groups", int64_t(2)}};
  Dims a = op == "conv" ? x : y, b = op == "conv_grad_weight" ? x : w,
       out = op == "conv"              ? y
             : op == "conv_grad_input" ? x
                                       : w;
  if (op != "conv")
    attrs.set("dims", out);
  return {"", op, attrs, {f32(a, even), f32(b, even)}, {result(DType::F32, out)}, {}, {}};
}

/// Each of the calls fails once.
void failCalls(const KernelCase &c, const std::vector<const char *> &names) {
  for (const char *name : names) {
    onDevice();
    int64_t live = emulated::liveAllocations();
    emulated::failCall(name, 1);
    RunResult r = run(c);
    emulated::failCall("", 0);
    EXPECT_THAT(r.error, testing::StartsWith(std::string(name) + ": ")) << name;
    EXPECT_EQ(emulated::liveAllocations(), live) << name;
  }
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

/// One of linear, linear_grad and linear_gelu_grad.
KernelCase linearCase(const std::string &op, int64_t rows, int64_t inner, int64_t columns,
                      bool trans, bool tanh = true, DType t = DType::F32) {
  auto operand = [&](Dims d) { return tensor(t, std::move(d), even); };
  Dims w = trans ? Dims{columns, inner} : Dims{inner, columns};
  KernelCase c{"", op, Attrs{{"trans_b", trans}}, {operand({rows, inner})}, {}, {}, {}};
  if (op == "linear_grad") {
    c.ins.push_back(operand({rows, columns}));
    c.outs = {result(t, w), result(t, {columns})};
    return c;
  }
  c.ins.push_back(operand(w));
  c.ins.push_back(operand(op == "linear" ? Dims{columns} : Dims{rows, columns}));
  if (op == "linear_gelu_grad")
    c.attrs.set("tanh", tanh);
  c.outs = {result(t, {rows, columns})};
  return c;
}

TEST(CudaLibraries, ComputesWhatFollowsAProduct) {
  for (bool trans : {false, true}) {
    EXPECT_THAT(noteOf(linearCase("linear", 24, 64, 16, trans)),
                testing::StartsWith("matmul with bias f32 24 x 16 x 64: cuBLASLt"));
    EXPECT_THAT(noteOf(linearCase("linear_grad", 24, 64, 16, trans)),
                testing::StartsWith(trans ? "matmul with sums f32 16 x 64 x 24: cuBLASLt"
                                          : "matmul with sums f32 64 x 16 x 24: cuBLASLt"));
    EXPECT_THAT(noteOf(linearCase("linear_gelu_grad", 24, 64, 16, trans)),
                testing::StartsWith("matmul with slope of gelu f32 24 x 16 x 64: cuBLASLt"));
    // By our kernels: gelu by erf, rows that are no multiple of eight elements, doubles.
    EXPECT_THAT(noteOf(linearCase("linear_gelu_grad", 24, 64, 16, trans, /*tanh=*/false)),
                testing::StartsWith("matmul f32 "));
    EXPECT_THAT(noteOf(linearCase("linear_gelu_grad", 24, 64, 12, trans)),
                testing::StartsWith("matmul f32 "));
    for (const char *op : {"linear", "linear_grad", "linear_gelu_grad"})
      EXPECT_THAT(noteOf(linearCase(op, 24, 64, 16, trans, true, DType::F64)),
                  testing::StartsWith("matmul f64 "));
  }
}

TEST(CudaLibraries, EachFailingCallOfAnEpilogueIsTold) {
  for (const char *op : {"linear", "linear_grad", "linear_gelu_grad"})
    for (const char *name : {"cublasLtMatmulDescSetAttribute", "cublasLtMatmul", "cublasLtCreate",
                             "cublasLtMatmulDescCreate", "cublasLtMatmulAlgoGetHeuristic",
                             "cublasLtMatmulAlgoConfigGetAttribute", "cudaLaunchKernel"})
      for (bool tanh : {true, false}) { // false: two steps
        int64_t failed = 0;
        for (int64_t nth = 1;; ++nth) {
          onDevice();
          int64_t live = emulated::liveAllocations();
          emulated::failCall(name, nth);
          KernelCase c = linearCase(op, 24, 64, 16, false, tanh);
          RunResult r = run(c);
          emulated::failCall("", 0);
          EXPECT_EQ(emulated::liveAllocations(), live) << op << " " << name << " " << nth;
          if (r.error.empty())
            break;
          EXPECT_THAT(r.error, testing::StartsWith(std::string(name) + ": ")) << op << " " << nth;
          ++failed;
          ASSERT_LT(nth, 100);
        }
        bool launches = std::string(op) == "linear_gelu_grad" && !tanh;
        EXPECT_EQ(failed > 0, name != std::string("cudaLaunchKernel") || launches)
            << op << " " << name;
      }
}

TEST(CudaLibraries, AddressesDecideByAlignmentOnly) {
  KernelCase c = product({24, 100}, {100, 20}, {24, 20});
  std::vector<RunResult> results;
  for (int misalign : {0, 4, 8, 1, 3}) {
    RunOptions o = onDevice();
    o.misalign = misalign;
    results.push_back(run(c, o));
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
  EXPECT_EQ(run(product({24, 100}, {100, 20}, {24, 20}), o).error, "");
  EXPECT_THAT(noteOf(convolution("conv"), o), HasSubstr("cuDNN algorithm 0, 0 bytes"));
  // The library has no other that repeats its bits, as two of the lists' first ones do not.
  EXPECT_THAT(noteOf(convolution("conv_grad_weight"), o),
              HasSubstr("own kernel: cuDNN has none whose bits repeat within 0 bytes"));
}

TEST(CudaLibraries, ConvolutionsAreTold) {
  EXPECT_EQ(noteOf(convolution("conv")),
            "conv f32 2 x 4 x 5 x 4 by 8 x 2 x 3 x 3: cuDNN algorithm 6, 2560 bytes");
  EXPECT_THAT(noteOf(convolution("conv_grad_input")), HasSubstr("cuDNN algorithm 4, 1280 bytes"));
  EXPECT_THAT(noteOf(convolution("conv_grad_weight")), HasSubstr("cuDNN algorithm 1, 1152 bytes"));
  EXPECT_EQ(noteOf(convolution("conv", 2, 0)),
            "conv f32 2 x 4 x 5 x 4 by 8 x 2 x 3 x 3: own kernel: padding is not the same in front "
            "and behind");
  KernelCase stepped = convolution("conv");
  stepped.ins[0].layout = Layout::Stepped;
  EXPECT_THAT(noteOf(stepped), HasSubstr("own kernel: a tensor is not row-major"));
  setenv("DS_CUDA_LIBRARIES", "cublasLt,nccl", 1);
  EXPECT_EQ(noteOf(convolution("conv")), "");
  unsetenv("DS_CUDA_LIBRARIES");
}

TEST(CudaLibraries, ConvolutionsAtOddAddressesAreOwn) {
  for (const char *op : {"conv", "conv_grad_input", "conv_grad_weight"}) {
    KernelCase c = convolution(op);
    setenv("DS_CUDA_LIBRARIES", "none", 1);
    RunResult own = run(c);
    unsetenv("DS_CUDA_LIBRARIES");
    RunOptions o = onDevice();
    EXPECT_NE(run(c, o).bytes, own.bytes) << op;
    o.misalign = 1;
    EXPECT_EQ(run(c, o).bytes, own.bytes) << op;
  }
}

TEST(CudaLibraries, EachFailingCallIsTold) {
  failCalls(product({2, 8, 64}, {2, 64, 16}, {2, 8, 16}),
            {"cudaGetDevice", "cublasLtCreate", "cublasLtMatmulDescCreate",
             "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
             "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate",
             "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic",
             "cublasLtMatmulAlgoConfigGetAttribute", "cublasLtMatmul"});
  failCalls(convolution("conv"),
            {"cudaGetDevice", "cudnnCreate", "cudnnCreateTensorDescriptor",
             "cudnnSetTensorNdDescriptorEx", "cudnnCreateFilterDescriptor",
             "cudnnSetFilterNdDescriptor", "cudnnCreateConvolutionDescriptor",
             "cudnnSetConvolutionNdDescriptor", "cudnnSetConvolutionGroupCount",
             "cudnnSetConvolutionMathType", "cudnnGetConvolutionForwardAlgorithm_v7",
             "cudnnGetConvolutionForwardWorkspaceSize", "cudnnSetStream",
             "cudnnConvolutionForward"});
  failCalls(convolution("conv_grad_input"),
            {"cudnnGetConvolutionBackwardDataAlgorithm_v7",
             "cudnnGetConvolutionBackwardDataWorkspaceSize", "cudnnConvolutionBackwardData"});
  failCalls(convolution("conv_grad_weight"),
            {"cudnnGetConvolutionBackwardFilterAlgorithm_v7",
             "cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnConvolutionBackwardFilter"});
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
