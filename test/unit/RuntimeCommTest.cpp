// SPDX-License-Identifier: Apache-2.0
//
// The local engine: exact results in rank order, in place too, and no rank that waits forever.
#include "runtime/Comm.h"
#include "runtime/CommSum.h"
#include "runtime/Convert.h"
#include "test/unit/RuntimeModel.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

using namespace ds;
using namespace ds::test;

namespace {

template <typename F> void onRanks(int world, F f) {
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r)
    threads.emplace_back(f, r);
  for (std::thread &t : threads)
    t.join();
}

// Values whose sum depends on the order: rank order is visible in the bits.
float value(int rank, int64_t i) {
  return (rank % 2 ? -1.0f : 1.0f) * (1.0f + static_cast<float>(i % 97) * 0.37f) *
         (rank == 0 ? 1e6f : 1.1f);
}
float sum(int world, int64_t i) {
  float s = value(0, i);
  for (int r = 1; r < world; ++r)
    s += value(r, i);
  return s;
}

void checkCollectives(int world, bool inPlace) {
  constexpr int64_t kSlice = 3 * 1024 + 128;
  int64_t n = kSlice * world;
  Abort abort;
  auto comms = makeLocalComms(world, abort, {});
  onRanks(world, [&](int r) {
    Comm &c = *comms[static_cast<size_t>(r)];
    std::vector<float> partial(static_cast<size_t>(n)), full(static_cast<size_t>(n));
    std::vector<float> slice(kSlice);
    std::vector<int64_t> bins = {r + 1, -5}, total(2);
    for (int64_t i = 0; i < n; ++i)
      partial[static_cast<size_t>(i)] = value(r, i);
    float *mine = inPlace ? partial.data() + r * kSlice : slice.data();
    float *whole = inPlace ? partial.data() : full.data();
    int64_t *reduced = inPlace ? bins.data() : total.data();
    Status s = c.bind({{InstrKind::ReduceScatter, "a", "l0", DType::F32, n, partial.data(), mine},
                       {InstrKind::AllGather, "b", "l0", DType::F32, n, mine, whole},
                       {InstrKind::AllReduce, "c", "bins", DType::I64, 2, bins.data(), reduced}},
                      {});
    ASSERT_TRUE(s.ok()) << s.str();
    for (size_t i = 0; i < 3; ++i)
      ASSERT_TRUE(c.run(i));
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(whole[i], sum(world, i)) << "rank " << r << " element " << i;
    EXPECT_EQ(reduced[0], world * (world + 1) / 2);
    EXPECT_EQ(reduced[1], -5 * world);
    auto traffic = c.traffic();
    ASSERT_EQ(traffic.size(), 3u);
    for (const CommTraffic &t : traffic)
      EXPECT_EQ(t.elems, t.bucket == "l0" ? kSlice * (world - 1) : 2 * (world - 1));
  });
}

TEST(RuntimeComm, SumsInRankOrder) {
  for (int world : {1, 2, 3, 4, 8})
    checkCollectives(world, false);
}

TEST(RuntimeComm, InPlaceSlicesAreSafe) {
  for (int world : {1, 2, 3, 4, 8})
    checkCollectives(world, true);
}

TEST(RuntimeComm, DifferentSequencesAreFound) {
  Abort abort;
  auto comms = makeLocalComms(2, abort, {});
  float x[2] = {};
  std::string errors[2];
  onRanks(2, [&](int r) {
    CommOp op{InstrKind::AllReduce, "a", "a", DType::F32, r + 1, x, x};
    Status s = comms[static_cast<size_t>(r)]->bind({op}, {});
    errors[r] = s.str();
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_NE(errors[1].find("sequence of collectives differs from rank 0's"), std::string::npos);
}

// What rank 1 says when all but one thing are as on rank 0.
static std::string refusal(const RunIdentity &first, const RunIdentity &second) {
  Abort abort;
  auto comms = makeLocalComms(2, abort, {});
  std::string errors[2];
  onRanks(2, [&](int r) {
    errors[r] = comms[static_cast<size_t>(r)]->bind({}, r == 0 ? first : second).str();
  });
  EXPECT_EQ(errors[0], "");
  return errors[1];
}

TEST(RuntimeComm, RanksWithAnotherPlanModelOrOptionsRefuseToStart) {
  Schedule s = makeMlp(2, 1, 3);
  std::string weights = ::testing::TempDir() + "ds-identity-" + std::to_string(::getpid());
  auto write = [&](char last) {
    std::ofstream(weights, std::ios::binary) << std::string(99'999, 'w') << last;
  };
  write('a');
  Source &source = s.buckets[0].segments[0].source;
  source.kind = Source::Kind::File;
  source.path = weights.substr(weights.rfind('/') + 1);
  s.directory = ::testing::TempDir();
  auto identity = [&](const std::string &options) {
    auto id = identityOf(s, options);
    EXPECT_TRUE(id.ok()) << id.status().str();
    return *id;
  };
  RunIdentity first = identity("seed 1");
  EXPECT_EQ(refusal(first, identity("seed 1")), "");
  EXPECT_NE(refusal(first, identity("seed 2")).find("its run options differs from rank 0's"),
            std::string::npos);
  write('b');
  EXPECT_NE(refusal(first, identity("seed 1")).find("its weights in " + source.path + " differs"),
            std::string::npos);
  write('a');
  s.step.stage = 2;
  EXPECT_NE(refusal(first, identity("seed 1")).find("its schedule differs from rank 0's"),
            std::string::npos);
  std::remove(weights.c_str());
}

TEST(RuntimeComm, AnAbortEndsEveryWait) {
  Abort abort;
  auto comms = makeLocalComms(3, abort, {});
  float x[3] = {};
  auto begin = std::chrono::steady_clock::now();
  onRanks(3, [&](int r) {
    CommOp op{InstrKind::AllReduce, "a", "a", DType::F32, 3, x, x};
    ASSERT_TRUE(comms[static_cast<size_t>(r)]->bind({op}, {}).ok());
    if (r == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      abort.raise(Status::error("stop"));
    } else {
      EXPECT_FALSE(comms[static_cast<size_t>(r)]->run(0));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(RuntimeComm, EveryRankLearnsThatOneIsNotOk) {
  Abort abort;
  auto comms = makeLocalComms(3, abort, {});
  onRanks(3, [&](int r) {
    Comm &c = *comms[static_cast<size_t>(r)];
    EXPECT_TRUE(c.meet(true));
    EXPECT_FALSE(c.meet(r != 2));
    EXPECT_TRUE(c.meet(true));
  });
}

TEST(RuntimeComm, SumsOfOtherTypesAreRefusedByName) {
  EXPECT_FALSE(canSum(DType::I32));
  Abort abort;
  auto comms = makeLocalComms(1, abort, {});
  int32_t x = 0;
  Status s = comms[0]->bind({{InstrKind::AllReduce, "u: g", "g", DType::I32, 1, &x, &x}}, {});
  EXPECT_EQ(s.str(), "error: u: g: sums of i32 are not supported, expected a float type or i64\n");
}

// 257 and more units are too many for bf16's 8 digits: a sum in it would lose them.
TEST(RuntimeComm, SixteenBitsAreAddedInF32) {
  std::vector<uint16_t> a(3000, floatToBf16(256)), b(3000, floatToBf16(1)),
      c(3000, floatToBf16(0.5));
  std::vector<float> sum(3000);
  const void *sources[] = {a.data(), b.data(), c.data()};
  sumInOrder(DType::BF16, sources, 3, sum.data(), 3000);
  EXPECT_EQ(sum, std::vector<float>(3000, 257.5f));
  std::vector<uint16_t> d(5, floatToF16(2048)), e(5, floatToF16(1));
  const void *halves[] = {d.data(), e.data()};
  sum.resize(5);
  sumInOrder(DType::F16, halves, 2, sum.data(), 5);
  EXPECT_EQ(sum, std::vector<float>(5, 2049.0f));
}

} // namespace
