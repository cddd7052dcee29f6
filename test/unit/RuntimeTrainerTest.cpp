// SPDX-License-Identifier: Apache-2.0
//
// Whole updates on `ref` with local ranks: bits do not depend on runs, stages, memory contents; failures stop
// every rank and say where.
#include "runtime/Trainer.h"

#include "test/unit/RuntimeModel.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

using namespace ds;
using namespace ds::test;

namespace {

struct Outcome {
  std::vector<double> losses, weights;
  bool operator==(const Outcome &) const = default;
};

Outcome train(Schedule s, int steps, RunOptions o = {}, Device device = refDevice()) {
  Outcome out;
  o.data = "synthetic:7";
  auto trainer = Trainer::create(std::move(s), std::move(device), o);
  if (!trainer.ok()) {
    ADD_FAILURE() << trainer.status().str();
    return out;
  }
  for (int i = 0; i < steps; ++i) {
    auto u = (*trainer)->step();
    if (!u.ok()) {
      ADD_FAILURE() << u.status().str();
      return out;
    }
    out.losses.push_back(u->loss);
  }
  for (const char *name : {"w1.weight", "w2.weight"}) {
    auto w = (*trainer)->readParam(name);
    EXPECT_TRUE(w.ok());
    if (w.ok())
      out.weights.insert(out.weights.end(), w->begin(), w->end());
  }
  return out;
}

TEST(RuntimeTrainer, LossFalls) {
  Outcome o = train(makeMlp(2, 1, 3), 200);
  ASSERT_EQ(o.losses.size(), 200u);
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    first += o.losses[i];
    last += o.losses[180 + i];
  }
  EXPECT_LT(last, 0.9 * first);
}

TEST(RuntimeTrainer, RepeatedRunsAndStagesGiveEqualBits) {
  for (int64_t world : {1, 2, 3, 4})
    for (int64_t accum : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << world << " ranks, accumulation " << accum);
      Outcome stage3 = train(makeMlp(world, accum, 3), 5);
      EXPECT_EQ(stage3, train(makeMlp(world, accum, 3), 5));
      EXPECT_EQ(stage3, train(makeMlp(world, accum, 0), 5));
      ASSERT_EQ(stage3.weights.size(), 192u);
      EXPECT_TRUE(std::isfinite(stage3.losses.back()));
    }
}

// An arena full of NaN patterns changes nothing: no launch reads what was not written.
TEST(RuntimeTrainer, ResultsDoNotDependOnTheArenasContents) {
  RunOptions o;
  o.arenaFill = 0xff;
  EXPECT_EQ(train(makeMlp(3, 2, 3), 4), train(makeMlp(3, 2, 3), 4, o));
}

TEST(RuntimeTrainer, SlowLinkOnlyCostsTime) {
  RunOptions slow;
  slow.linkBytesPerSecond = 2e5;
  auto begin = std::chrono::steady_clock::now();
  Outcome o = train(makeMlp(2, 1, 3), 3, slow);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(o, train(makeMlp(2, 1, 3), 3));
  // An update sends half of 256 f32 elements twice, and 67 bins: 1.5 KiB at 200 kB/s.
  EXPECT_GT(time.count(), 3 * 1.5 * 1024 / 2e5);
}

TEST(RuntimeTrainer, CountsTraffic) {
  RunOptions o;
  o.data = "synthetic:7";
  auto t = Trainer::create(makeMlp(4, 2, 3), refDevice(), o);
  ASSERT_TRUE(t.ok()) << t.status().str();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE((*t)->step().ok());
  for (int rank = 0; rank < 4; ++rank) {
    int64_t gathered = 0, reduced = 0, scalars = 0;
    for (const CommTraffic &c : (*t)->traffic(rank)) {
      if (c.kind == InstrKind::AllGather && c.bucket == "l0")
        gathered += c.elems;
      else if (c.kind == InstrKind::ReduceScatter && c.bucket == "l0")
        reduced += c.bytes;
      else if (c.kind == InstrKind::AllReduce)
        scalars += c.elems;
    }
    EXPECT_EQ(gathered, 3 * 2 * 512 * 3 / 4); // updates x micros x elements x (N-1)/N
    EXPECT_EQ(reduced, 3 * 2 * 512 * 3 / 4 * 4);
    EXPECT_EQ(scalars, 3 * (1 + 67) * 3);
  }
}

TEST(RuntimeTrainer, ScheduleTextRunsAlike) {
  Schedule s = makeMlp(2, 2, 3);
  auto parsed = parseSchedule(printSchedule(s), "mlp.dsched");
  ASSERT_TRUE(parsed.ok()) << parsed.status().str();
  EXPECT_EQ(train(std::move(s), 3), train(std::move(parsed).take(), 3));
}

std::atomic<int> runsLeft;
const char *failLater(const DsLaunch *l, void *) {
  if (l->rank == 1 && runsLeft.fetch_sub(1) <= 0)
    return "the test says so";
  const float *from = static_cast<const float *>(l->ins[0].data);
  float *to = static_cast<float *>(l->outs[0].data);
  for (int64_t i = 0; i < elems(l->outs[0]); ++i)
    to[i] = from[i];
  return nullptr;
}
const DsKernel kFailing = {"relu", "f32", nullptr, failLater, nullptr, nullptr, nullptr};

TEST(RuntimeTrainer, AFailingKernelStopsAllRanksAndIsNamed) {
  runsLeft = 2;
  Device d = refDevice();
  d.kernels.insert(d.kernels.begin(), {"failing", [](const char *op, DType) {
                                         return std::string(op) == "relu" ? &kFailing : nullptr;
                                       }});
  Schedule s = makeMlp(4, 1, 3);
  s.origins.push_back({"/act/Relu", "act", ""});
  for (Instr &i : s.programs[0].instrs)
    if (i.op == OpKind::Relu && i.kind == InstrKind::Launch)
      i.origin = 0;
  RunOptions o;
  o.data = "synthetic:7";
  auto t = Trainer::create(std::move(s), d, o);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
  ASSERT_TRUE((*t)->step().ok());
  auto begin = std::chrono::steady_clock::now();
  auto u = (*t)->step();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  ASSERT_FALSE(u.ok());
  EXPECT_EQ(u.status().str(),
            "rank 1: error: update 3: micro.only: a (relu of /act/Relu): the test "
            "says so\n");
  auto again = (*t)->step();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().str(), u.status().str());
}

TEST(RuntimeTrainer, AMissingKernelIsNamed) {
  Device d = {"none", {{"none", [](const char *, DType) { return nullptr; }}}};
  RunOptions o;
  o.data = "synthetic:7";
  auto t = Trainer::create(makeMlp(2, 1, 3), d, o);
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.status().str().find("rank 0: micro.only: h: error: device none has no kernel for "
                                  "matmul on f32"),
            std::string::npos)
      << t.status().str();
}

TEST(RuntimeTrainer, DataIsAskedFor) {
  auto t = Trainer::create(makeMlp(1, 1, 0), refDevice(), {});
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.status().str().find("none is given: --data"), std::string::npos);
}

} // namespace
