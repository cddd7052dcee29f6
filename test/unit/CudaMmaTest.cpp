// SPDX-License-Identifier: Apache-2.0
//
// What tensor cores are fed with and compute, emulated, against plain products: the kernels of attention are built from these.
#include "kernels/cuda/Mma.cuh"

#include <gmock/gmock.h>

#include <random>

namespace ds::cuda {
namespace {

using testing::HasSubstr;

/// Rows of 16 or 8 elements at multiples of 16 bytes, with 8 elements between them.
constexpr int kRow = 24;
template <typename T> struct Matrix { T of[16][kRow]; };

template <typename T> Matrix<T> randomMatrix(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-2, 2);
  Matrix<T> m;
  for (auto &row : m.of)
    for (T &x : row)
      x = T::from(static_cast<double>(numbers(random)));
  return m;
}

template <typename S> void share(S &to, const void *from) {
  for (int i = static_cast<int>(threadIdx.x); i < 16 * kRow / 2; i += 32)
    to[i] = static_cast<const uint32_t *>(from)[i];
  __syncwarp();
}

// c = a b + 1 from shared memory: b row-major, or (kTransposed false) by columns.
template <typename T, bool kTransposed>
void product(float (&c)[16][8], const Matrix<T> &a, const Matrix<T> &b) {
  std::string error = emulated::runGrid(dim3(1), dim3(32), 0, [&] {
    DS_SHARED(uint32_t, as, 16 * kRow / 2);
    DS_SHARED(uint32_t, bs, 16 * kRow / 2);
    share(as, &a);
    share(bs, &b);
    const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
    uint32_t left[4], right[4];
    loadMatrices<false>(left, as, lane % 16 * kRow / 2 + lane / 16 * 4);
    if (kTransposed) // two matrices below each other; the others are not used
      loadMatrices<true>(right, bs, lane % 16 * kRow / 2);
    else // side by side
      loadMatrices<false>(right, bs, lane % 8 * kRow / 2 + lane / 8 % 2 * 4);
    float sum[4] = {1, 1, 1, 1};
    mma16816<T>(sum, left, right[0], right[1]);
    for (int i = 0; i < 4; ++i)
      c[g + i / 2 * 8][2 * t + i % 2] = sum[i];
  });
  ASSERT_EQ(error, "");
}

template <typename T, bool kTransposed> void compare() {
  Matrix<T> a = randomMatrix<T>(1), b = randomMatrix<T>(2);
  float c[16][8];
  product<T, kTransposed>(c, a, b);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      float want = 1;
      for (int k = 0; k < 16; ++k)
        want += a.of[i][k].value() * (kTransposed ? b.of[k][j] : b.of[j][k]).value();
      EXPECT_NEAR(c[i][j], want, 1e-5) << i << ", " << j;
    }
}

TEST(CudaMma, IsTheProduct) {
  compare<BF16, true>();
  compare<BF16, false>();
  compare<F16, true>();
  compare<F16, false>();
}

TEST(CudaMma, PackedRoundsToNearest) {
  EXPECT_EQ(packed<BF16>(1.00390625f, -2.5f), 0xc0203f80u); // a tie, to even
  EXPECT_EQ(packed<F16>(1.5f, 65520.0f), 0x7c003e00u);      // infinity
  EXPECT_EQ(lowOf<BF16>(0xc0203f80u), 1.0f);
  EXPECT_EQ(highOf<BF16>(0xc0203f80u), -2.5f);
}

TEST(CudaMma, AllLanesMustCome) {
  auto run = [](int lanes, int last) {
    return emulated::runGrid(dim3(1), dim3(static_cast<unsigned>(lanes)), 0, [=] {
      float c[4] = {};
      const uint32_t a[4] = {};
      if (static_cast<int>(threadIdx.x) != last)
        mma16816<BF16>(c, a, 0, 0);
    });
  };
  EXPECT_EQ(run(32, -1), "");
  EXPECT_THAT(run(32, 7), HasSubstr("lane 7 of the warp is not there"));
  EXPECT_THAT(run(31, -1), HasSubstr("lane 31 of the warp is not there"));
}

TEST(CudaMma, RowsMustBeAligned) {
  EXPECT_THAT(emulated::runGrid(dim3(1), dim3(32), 0,
                                [] {
                                  DS_SHARED(uint32_t, s, 64);
                                  uint32_t to[4];
                                  loadMatrices<false>(to, s, 2);
                                }),
              HasSubstr("not aligned to 16 bytes"));
}

// One thread's copy, read by the whole warp.
std::string copied(bool wait, bool meet, int offset, uint32_t (&got)[32]) {
  alignas(16) static const uint32_t source[12] = {1, 2, 3, 4, 5, 6, 7, 8};
  return emulated::runGrid(dim3(1), dim3(32), 0, [&] {
    DS_SHARED(uint32_t, s, 8);
    AsyncCopies copies;
    if (threadIdx.x == 0) {
      copies.add(s, 0, source + offset, true);
      copies.add(s, 4, nullptr, false);
    }
    if (wait)
      copies.wait();
    if (meet)
      __syncwarp();
    got[threadIdx.x] = s[threadIdx.x % 8];
  });
}

TEST(CudaMma, CopiesAreThereBehindAWaitAndABarrier) {
  uint32_t got[32];
  ASSERT_EQ(copied(true, true, 4, got), "");
  EXPECT_EQ(got[1], 6u);
  EXPECT_EQ(got[4], 0u);
  EXPECT_EQ(copied(false, true, 4, got), "");
  EXPECT_EQ(got[1], UINT32_MAX);
  EXPECT_THAT(copied(true, false, 4, got), HasSubstr("no barrier is between them"));
  EXPECT_THAT(copied(true, true, 1, got), HasSubstr("a copy of 16 bytes is not aligned"));
}

} // namespace
} // namespace ds::cuda
