// SPDX-License-Identifier: Apache-2.0
//
// Arrays on their way into a run and out of it.
#include "runtime/Forward.h"

#include "runtime/Npy.h"
#include "test/unit/RuntimeTestFiles.h"

#include "gtest/gtest.h"

#include <cstring>

namespace ds {
namespace {

template <typename T> Array arrayOf(DType t, std::vector<T> v) {
  Array a{t, {static_cast<int64_t>(v.size())}, std::string(v.size() * sizeof(T), '\0')};
  std::memcpy(a.bytes.data(), v.data(), a.bytes.size());
  return a;
}

std::string misfit(Array a, DType want) {
  Type t(want, a.dims);
  auto fitted = fitArray(std::move(a), t);
  return fitted.ok() ? "" : fitted.status().entries()[0].text;
}

TEST(FitArray, TakesIntegersThatFit) {
  EXPECT_EQ(misfit(arrayOf<int64_t>(DType::I64, {-128, 127}), DType::I8), "");
  EXPECT_EQ(misfit(arrayOf<int64_t>(DType::I64, {1, 128}), DType::I8),
            "element 1 is 128, which is no i8");
  EXPECT_EQ(misfit(arrayOf<int32_t>(DType::I32, {-1}), DType::U64),
            "element 0 is -1, which is no u64");
  EXPECT_EQ(misfit(arrayOf<uint64_t>(DType::U64, {~uint64_t(0)}), DType::I64),
            "element 0 is 18446744073709551615, which is no i64");
  EXPECT_EQ(misfit(arrayOf<uint8_t>(DType::Bool, {1}), DType::U8),
            "elements are bool, expected u8");
  EXPECT_EQ(misfit(arrayOf<float>(DType::F32, {1}), DType::I32), "elements are f32, expected i32");
}

TEST(FitArray, RoundsFloats) {
  auto a = fitArray(arrayOf<double>(DType::F64, {1.0 + 0x1p-30, -2.5}), Type(DType::F32, {2}));
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->bytes, (arrayOf<float>(DType::F32, {1, -2.5f}).bytes));
}

TEST(Npy, WritesWhatItReads) {
  test::TempDir dir;
  std::string path = dir.path + "/a.npy";
  for (Array a : {arrayOf<float>(DType::F32, {1, 2, 3}), arrayOf<uint8_t>(DType::Bool, {0, 1}),
                  Array{DType::I64, {}, std::string(8, '\1')}, Array{DType::F16, {0, 3}, ""}}) {
    ASSERT_TRUE(writeNpy(path, a).ok());
    auto b = readNpy(path);
    ASSERT_TRUE(b.ok()) << b.status().str();
    EXPECT_EQ(b->dtype, a.dtype);
    EXPECT_EQ(b->dims, a.dims);
    EXPECT_EQ(b->bytes, a.bytes);
  }
}

TEST(Npy, WidensBf16) {
  test::TempDir dir;
  ASSERT_TRUE(writeNpy(dir.path + "/a.npy", arrayOf<uint16_t>(DType::BF16, {0x3f80})).ok());
  auto b = readNpy(dir.path + "/a.npy");
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->bytes, (arrayOf<float>(DType::F32, {1}).bytes));
  EXPECT_EQ(b->dtype, DType::F32);
}

} // namespace
} // namespace ds
