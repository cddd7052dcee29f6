// SPDX-License-Identifier: Apache-2.0
//
// Random numbers and dropout. The words are those that the paper's authors publish as known answers (Random123, kat_vectors).
#include "ir/Philox.h"
#include "test/unit/OpHarness.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace ds;
using namespace ds::optest;

namespace {

TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ((Philox{0, 0}.block(0)), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ((Philox{~0ull, ~0ull}.block(~0ull)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ((Philox{0x299f31d0a4093822, 0x0370734413198a2e}.block(0x85a308d3243f6a88)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Tensor rng(double seed, double sample) { return Tensor(DType::U64, {2}, {seed, sample}); }
Attrs form(double ratio, int64_t key, int64_t rows) {
  return {{"ratio", ratio}, {"key", key}, {"rows", rows}};
}
Tensor ones(Dims d) {
  return tabulate(DType::F64, std::move(d), [](const Dims &) { return 1.0; });
}
Tensor mask(Dims d, double seed, double sample, int64_t key, int64_t rows, double ratio = 0.5) {
  return run1(OpKind::Dropout, {ones(std::move(d)), rng(seed, sample)}, form(ratio, key, rows));
}
// Elements that differ.
int64_t differences(const Tensor &a, const Tensor &b) {
  int64_t n = 0;
  for (size_t i = 0; i < a.v.size(); ++i)
    n += a.v[i] != b.v[i];
  return n;
}

TEST(RefDropout, ElementsFollowTheDocumentedWords) {
  Tensor x = uniform(DType::F32, {3, 10}, 1);
  Tensor y = run1(OpKind::Dropout, {x, rng(9, 100)}, form(0.25, 6, 3));
  uint64_t key = Philox{9, ~6ull}.bits(0);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t e = 0; e < 10; ++e) {
      uint32_t word = Philox{key, static_cast<uint64_t>(100 + r)}.block(e / 4)[e % 4];
      float want = word < 0x40000000u
                       ? 0.0f
                       : static_cast<float>(x.at({r, e})) * static_cast<float>(1 / 0.75);
      EXPECT_EQ(y.at({r, e}), static_cast<double>(want)) << r << " " << e;
    }
}

// n draws with probability p lie within five standard deviations of n p, and what is kept makes up for the rest.
TEST(RefDropout, KeepsItsShareAndTheMean) {
  constexpr int64_t kElems = 200000;
  for (double ratio : {0.05, 0.1, 0.5, 0.9}) {
    Tensor y = mask({kElems}, 3, 17, 1, 0, ratio);
    int64_t kept = 0;
    for (double v : y.v) {
      kept += v != 0;
      EXPECT_TRUE(v == 0 || v == 1 / (1 - ratio));
    }
    double n = static_cast<double>(kElems);
    EXPECT_NEAR(static_cast<double>(kept), n * (1 - ratio), 5 * std::sqrt(n * ratio * (1 - ratio)));
  }
  expectEqual(mask({64}, 3, 17, 1, 0, 0), ones({64}));
}

// Four samples at once are two times two, and each of them alone.
TEST(RefDropout, SamplesHaveMasksOfTheirOwn) {
  Tensor all = mask({4, 37}, 1, 20, 2, 4);
  for (int64_t r = 0; r < 4; ++r) {
    Tensor two = mask({2, 37}, 1, static_cast<double>(20 + r / 2 * 2), 2, 2);
    Tensor one = mask({1, 37}, 1, static_cast<double>(20 + r), 2, 1);
    for (int64_t e = 0; e < 37; ++e) {
      EXPECT_EQ(two.at({r % 2, e}), all.at({r, e}));
      EXPECT_EQ(one.at({0, e}), all.at({r, e}));
    }
  }
}

// Another seed, op or sample draws an independent mask: about half of the elements differ.
TEST(RefDropout, SeedsKeysAndSamplesDiffer) {
  Tensor a = mask({4000}, 1, 20, 2, 1);
  for (const Tensor &b :
       {mask({4000}, 2, 20, 2, 1), mask({4000}, 1, 20, 3, 1), mask({4000}, 1, 21, 2, 1)})
    EXPECT_NEAR(static_cast<double>(differences(a, b)), 2000, 5 * std::sqrt(1000.0));
  EXPECT_EQ(differences(a, mask({4000}, 1, 20, 2, 1)), 0);
}

TEST(RefDropout, DroppedInfinitiesAreZero) {
  Tensor x = tabulate(DType::F32, {64}, [](const Dims &i) { return i[0] % 2 ? INFINITY : NAN; });
  Tensor y = run1(OpKind::Dropout, {x, rng(0, 0)}, form(0.5, 1, 0));
  Tensor m = mask({64}, 0, 0, 1, 0);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(y.v[i] == 0, m.v[i] == 0);
}

TEST(RefDropout, RefusesWhatItCannotDraw) {
  Tensor x = ones({3, 2}), r = rng(0, 0);
  EXPECT_NE(errorOf(OpKind::Dropout, {x, r}, form(1, 1, 0)).find("ratio 1.0 is not in [0, 1)"),
            std::string::npos);
  EXPECT_NE(errorOf(OpKind::Dropout, {x, r}, form(0.5, 1, 4)).find("rows=4 does not divide"),
            std::string::npos);
  EXPECT_NE(errorOf(OpKind::Dropout, {x, ones({2})}, form(0.5, 1, 0)).find("dropout_1"),
            std::string::npos);
}

} // namespace
