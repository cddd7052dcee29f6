// SPDX-License-Identifier: Apache-2.0
//
// What a kernel does beside its operands is told with file and line. The kernel is right here, and the operands that the emulation is
// told of are not.
#include "kernels/cuda/Kernels.h"
#include "test/emulation/include/cuda_runtime.h"

#include "ir/DType.h"

#include <gmock/gmock.h>

#include <fstream>

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

using testing::HasSubstr;

const DsDeviceApi &api() { return *ds_plugin_entry(DS_ABI, DS_BUILD)->api; }

/// -x of 300 elements in device memory, of which the first `written` are known.
class CudaAccess : public testing::Test {
protected:
  static constexpr int64_t kCount = 300;
  static constexpr size_t kBytes = kCount * sizeof(float);
  void SetUp() override {
    if (!emulated::tracesAccesses())
      GTEST_SKIP() << "this build does not see single accesses";
    ASSERT_EQ(api().streamCreate(&stream), nullptr);
    for (void **p : {&x, &out})
      ASSERT_EQ(api().allocate(DsMemoryDevice, kBytes + 256, p), nullptr);
  }
  void TearDown() override {
    emulated::failCall("", 0); // the error has stuck
    if (!stream)
      return;
    api().streamSync(stream);
    api().streamDestroy(stream);
    api().release(DsMemoryDevice, x);
    api().release(DsMemoryDevice, out);
  }
  std::string run(size_t written = kBytes) {
    const int64_t strides = 1;
    DsTensor in{x, &kCount, &strides, 1, static_cast<uint8_t>(DType::F32)}, result = in;
    result.data = out;
    DsLaunch l = {};
    l.ins = &in;
    l.outs = &result;
    l.numIns = l.numOuts = 1;
    l.stream = stream;
    api().fill(x, 0, written, stream);
    const char *message = cuda::neg(&l, nullptr);
    if (!message)
      message = api().streamSync(stream);
    return message ? message : "";
  }
  void *stream = nullptr, *x = nullptr, *out = nullptr;
};

// The line that "kernels/cuda/Map.cuh:62" in the message means.
std::string lineOf(const std::string &message) {
  const std::string file = "kernels/cuda/Map.cuh";
  size_t at = message.find(file + ":");
  if (at == std::string::npos)
    return "no line in: " + message;
  std::ifstream source(std::string(DS_SOURCE_DIR) + "/" + file);
  std::string line;
  for (int n = std::atoi(message.c_str() + at + file.size() + 1); n > 0; --n)
    std::getline(source, line);
  return line;
}

TEST_F(CudaAccess, NothingIsSaidOfWhatIsRight) {
  emulated::Touches t;
  t.reads(x, kBytes);
  t.writes(out, kBytes, "destination", true);
  EXPECT_EQ(run(), "");
}

TEST_F(CudaAccess, ReadsBehindAnOperand) {
  emulated::Touches t;
  t.reads(x, kBytes - sizeof(float));
  t.writes(out, kBytes);
  std::string error = run();
  EXPECT_THAT(
      error,
      HasSubstr("reads 4 bytes, 0 bytes behind source of 1196 bytes: it belongs to no operand"));
  EXPECT_THAT(lineOf(error), HasSubstr("packAt<kSize>(x, at"));
}

TEST_F(CudaAccess, WritesBehindAResult) {
  emulated::Touches t;
  t.reads(x, kBytes);
  t.writes(out, 100);
  std::string error = run();
  EXPECT_THAT(error, HasSubstr("writes 4 bytes, 0 bytes behind destination of 100 bytes"));
  EXPECT_THAT(lineOf(error), HasSubstr("putPack(out, at[0]"));
}

TEST_F(CudaAccess, WritesAnOperand) {
  emulated::Touches t;
  t.reads(x, kBytes);
  t.reads(out, kBytes, "operand 1");
  EXPECT_THAT(run(), HasSubstr("writes 4 bytes, byte 0 of operand 1: it is not to be written"));
}

TEST_F(CudaAccess, ReadsWhatNobodyWrote) {
  emulated::Touches t;
  t.reads(x, kBytes);
  t.writes(out, kBytes);
  EXPECT_THAT(run(640), HasSubstr("reads 4 bytes, byte 640 of source: nobody has written it"));
}

TEST_F(CudaAccess, WideAccessesAreAligned) {
  emulated::Touches t;
  t.writes(out, kBytes);
  auto write = [&](int64_t offset, size_t bytes) {
    auto *to = static_cast<char *>(out) + offset;
    emulated::enqueue(static_cast<cudaStream_t>(stream), dim3(1), dim3(1), 0,
                      [=] { emulated::touched(to, bytes, true, __builtin_return_address(0)); });
    const char *message = api().streamSync(stream);
    return std::string(message ? message : "");
  };
  EXPECT_EQ(write(32, 16) + write(40, 8) + write(44, 4), "");
  EXPECT_THAT(write(40, 16),
              HasSubstr("writes 16 bytes, byte 40 of destination: it is not aligned"));
  emulated::failCall("", 0); // the error has stuck
  EXPECT_THAT(write(44, 8), HasSubstr("writes 8 bytes, byte 44 of destination: it is not aligned"));
}

} // namespace
} // namespace ds::test
