// SPDX-License-Identifier: Apache-2.0
//
// What is sent, for the small GPT-2: what the runtime counts is what the plan says, bucket by bucket and byte for byte;
// and it is the theory's 2, 2, 2 and 3 times the parameters under stages 0 to 3, times (N-1)/N, with A micro-batches
//   stages 0, 1: 2      stage 2: A + 1      stage 3: 3 A
// Only at stage 3 do buckets differ, each for one reason: resident ones are not gathered (A + 1), a tied one is gathered
// where each layer needs it (here forward's first, which backward does not need, and the last, whose gather serves backward,
// too: twice, as in theory), one that backward does not need only once per micro-batch, and a carried one once per update,
// and once before the first. Padding goes with its bucket.
#include "test/unit/Gpt2.h"

#include "passes/Report.h"

#include <gtest/gtest.h>

using namespace ds;
using namespace ds::test;

#ifdef DS_HAVE_CPU_DEVICE

namespace {

constexpr int kUpdates = 2;

Gpt2Run small(int64_t stage, int64_t world, int64_t accum, int64_t threshold) {
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.sequence = 4;
  run.tokens = "data/train.bin";
  run.config.optimizer.type = "adamw";
  run.config.loss.kind = LossConfig::Kind::CrossEntropy;
  run.config.loss.logits = "logits";
  run.config.stage = stage, run.config.world = world, run.config.gradAccum = accum;
  run.config.microBatch = 1, run.config.trainBatch = world * accum;
  run.config.persistenceThreshold = threshold;
  run.config.reduceBucketSize = 100'000; // several buckets per layer
  return run;
}

// Gathers and reductions of one bucket in one update.
int64_t callsByTheory(int64_t stage, int64_t accum, bool resident) {
  if (stage <= 1)
    return 2;
  return stage == 2 || resident ? accum + 1 : 3 * accum;
}

void checkTheory(const Schedule &s, const TrafficReport &plan, int64_t threshold) {
  int64_t accum = s.step.gradAccum, world = s.world(), stage = s.step.stage;
  int64_t elems = 0, valid = 0, exceptions = 0, padding = 0;
  std::vector<std::string> tied, once, carried;
  for (const BucketTraffic &b : plan.buckets) {
    int64_t calls = b.gathers + b.reductions, expected = callsByTheory(stage, accum, false);
    EXPECT_EQ(b.sentBytes * world, calls * (b.validElems + b.paddingElems) * 4 * (world - 1))
        << b.bucket;
    EXPECT_EQ(b.reductions, stage <= 1 ? 1 : accum) << b.bucket;
    if (b.carried) {
      EXPECT_EQ(stage, 3);
      EXPECT_EQ(b.gathers, 1);
      carried.push_back(b.bucket);
    } else if (b.resident) {
      EXPECT_EQ(calls, callsByTheory(stage, accum, true)) << b.bucket;
      EXPECT_NE(b.bucket.find(".small"), std::string::npos) << b.bucket;
    } else if (calls != expected) {
      EXPECT_EQ(b.tied, calls > expected) << b.bucket;
      (b.tied ? tied : once).push_back(b.bucket);
      EXPECT_EQ(calls, expected + (b.tied ? accum : -accum)) << b.bucket;
    }
    valid += b.validElems;
    elems += calls * b.validElems;
    padding += calls * b.paddingElems;
    exceptions += (calls - expected) * b.validElems;
  }
  EXPECT_EQ(valid, 820736); // of the model
  EXPECT_EQ(plan.sentBytes * world, (elems + padding) * 4 * (world - 1));
  // All that differs from the theory is in the exceptions.
  EXPECT_EQ(elems - exceptions, callsByTheory(stage, accum, false) * valid);
  if (stage < 3) {
    EXPECT_EQ(exceptions, 0);
    EXPECT_EQ(plan.residentElems, valid);
  } else {
    // The first that a micro-batch needs is the tied one; what it costs in memory decides whether it is carried.
    EXPECT_EQ(carried.empty(), !s.program("start"));
    if (!carried.empty()) {
      EXPECT_EQ(carried, std::vector<std::string>{"lm_head.weight.bucket"});
    }
    EXPECT_TRUE(tied.empty());
    EXPECT_EQ(once, std::vector<std::string>{"transformer.wpe"});
    EXPECT_EQ(plan.residentElems > 0, threshold > 0);
  }
}

// Rank 0's counts after kUpdates are those of the plan; all ranks send alike.
void checkCounts(const Trainer &t, const TrafficReport &plan) {
  std::map<std::string, int64_t> calls, bytes;
  for (const CommTraffic &c : t.traffic(0)) {
    calls[c.bucket] += c.calls;
    bytes[c.bucket] += c.bytes;
  }
  for (const BucketTraffic &b : plan.buckets) {
    int64_t before = b.carried ? 1 : 0; // in start
    int64_t gather =
        (b.validElems + b.paddingElems) * 4 * (t.schedule().world() - 1) / t.schedule().world();
    EXPECT_EQ(calls[b.bucket], before + kUpdates * (b.gathers + b.reductions)) << b.bucket;
    EXPECT_EQ(bytes[b.bucket], before * gather + kUpdates * b.sentBytes) << b.bucket;
    bytes.erase(b.bucket);
  }
  int64_t scalars = 0; // the rest
  for (auto &[name, n] : bytes)
    scalars += n;
  EXPECT_EQ(scalars, kUpdates * plan.scalarBytes);
  for (int rank = 1; rank < t.schedule().world(); ++rank) {
    int64_t own = 0, first = 0;
    for (const CommTraffic &c : t.traffic(rank))
      own += c.bytes;
    for (const CommTraffic &c : t.traffic(0))
      first += c.bytes;
    EXPECT_EQ(own, first) << "rank " << rank;
  }
}

class Traffic : public ::testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

TEST_P(Traffic, CountedIsPlannedIsTheory) {
  auto [stage, world, accum] = GetParam();
  for (int64_t threshold : {0, 512}) {
    auto t = startGpt2(small(stage, world, accum, threshold));
    ASSERT_TRUE(t.ok()) << t.status().str();
    for (int u = 0; u < kUpdates; ++u) {
      auto r = (*t)->step();
      ASSERT_TRUE(r.ok()) << r.status().str();
    }
    TrafficReport plan = trafficReport((*t)->schedule());
    checkTheory((*t)->schedule(), plan, threshold);
    checkCounts(**t, plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, Traffic,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(2, 3, 4), ::testing::Values(1, 4)));

// One rank sends nothing.
TEST(Traffic, OneRank) {
  auto s = planGpt2(small(3, 1, 1, 0));
  ASSERT_TRUE(s.ok()) << s.status().str();
  TrafficReport plan = trafficReport(*s);
  EXPECT_EQ(plan.sentBytes, 0);
  EXPECT_EQ(plan.scalarBytes, 0);
}

} // namespace

#endif
