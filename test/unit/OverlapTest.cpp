// SPDX-License-Identifier: Apache-2.0
//
// With a slow link, at least half of the time in all_gathers passes while the rank computes, seen in the trace of
// the small GPT-2 under stage 3; without overlap_comm almost none. The link is set from the measured compute time,
// so that the machine's speed does not matter. Under stage 2, gathers of updated weights run on into the next update.
#include "test/unit/Gpt2.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace ds;
using namespace ds::test;

#ifdef DS_HAVE_CPU_DEVICE

namespace {

constexpr int kUpdates = 3; // the first one warms up

Gpt2Run small(bool overlap) {
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.tokens = "data/train.bin";
  run.config.optimizer.type = "adamw";
  run.config.loss.kind = LossConfig::Kind::CrossEntropy;
  run.config.loss.logits = "logits";
  run.config.stage = 3, run.config.world = 2, run.config.gradAccum = 1;
  run.config.microBatch = 16, run.config.trainBatch = 32;
  run.config.persistenceThreshold = 512;
  run.config.overlap = overlap;
  run.traceEvents = 4096;
  return run;
}

struct Span {
  double begin, end; // microseconds
};

// What rank 0 did after the first update, from the trace file.
struct Seen {
  std::vector<Span> gathers, computing;
  double carriedUs = 0; // of the gathers of one update, while the next one computes
  double computeUs = 0, gatherUs = 0, hiddenUs = 0;
};

Seen readTrace(const std::string &path) {
  Seen seen;
  std::vector<int64_t> gatherOf, computeOf; // updates
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  auto trace = llvm::json::parse(file.str());
  EXPECT_TRUE(static_cast<bool>(trace));
  for (const llvm::json::Value &v : *trace->getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object &e = *v.getAsObject();
    if (e.getString("ph") != llvm::StringRef("X") || *e.getInteger("pid") != 0 ||
        *e.getObject("args")->getInteger("update") == 0)
      continue;
    double begin = *e.getNumber("ts");
    Span span{begin, begin + *e.getNumber("dur")};
    int64_t update = *e.getObject("args")->getInteger("update");
    bool gather = e.getString("cat") == llvm::StringRef("all_gather");
    if (!gather && *e.getInteger("tid") != 0)
      continue;
    (gather ? seen.gathers : seen.computing).push_back(span);
    (gather ? gatherOf : computeOf).push_back(update);
  }
  for (size_t g = 0; g < seen.gathers.size(); ++g)
    for (size_t c = 0; c < seen.computing.size(); ++c)
      if (computeOf[c] > gatherOf[g])
        seen.carriedUs +=
            std::max(0.0, std::min(seen.computing[c].end, seen.gathers[g].end) -
                              std::max(seen.computing[c].begin, seen.gathers[g].begin));
  for (const Span &c : seen.computing)
    seen.computeUs += c.end - c.begin;
  for (const Span &g : seen.gathers) {
    seen.gatherUs += g.end - g.begin;
    for (const Span &c : seen.computing)
      seen.hiddenUs += std::max(0.0, std::min(c.end, g.end) - std::max(c.begin, g.begin));
  }
  return seen;
}

Seen trainAndLook(const Gpt2Run &run) {
  auto t = startGpt2(run);
  EXPECT_TRUE(t.ok()) << t.status().str();
  if (!t.ok())
    return {};
  for (int u = 0; u < kUpdates; ++u)
    EXPECT_TRUE((*t)->step().ok());
  std::string path = ::testing::TempDir() + "ds-overlap-" + std::to_string(::getpid()) + ".json";
  EXPECT_TRUE((*t)->writeTrace(path).ok());
  Seen seen = readTrace(path);
  std::remove(path.c_str());
  return seen;
}

// The share of gather time that is hidden, with gathers of about a fifth of the compute time.
double hiddenShare(bool overlap, double computeUs) {
  Gpt2Run run = small(overlap);
  double bytes = 820736 * 4.0; // received per update: half of two copies of the model
  run.linkBytesPerSecond = bytes / (0.2e-6 * computeUs);
  Seen seen = trainAndLook(run);
  EXPECT_GT(seen.gatherUs, 0.15 * computeUs * (kUpdates - 1)); // else there is nothing to hide
  double share = seen.hiddenUs / seen.gatherUs;
  std::printf("overlap %s: gathers take %.0f %% of the compute time, %.0f %% of that is hidden\n",
              overlap ? "on" : "off", 100 * seen.gatherUs / seen.computeUs, 100 * share);
  return share;
}

TEST(Overlap, HalfOfTheGatherTimeIsHidden) {
  double computeUs = trainAndLook(small(true)).computeUs / (kUpdates - 1);
  ASSERT_GT(computeUs, 0);
  EXPECT_LE(hiddenShare(false, computeUs), 0.1);
  // Other work on the machine makes ranks wait for each other inside gathers: one undisturbed run is enough.
  double best = 0;
  for (int attempt = 0; attempt < 5 && best < 0.5; ++attempt)
    best = std::max(best, hiddenShare(true, computeUs));
  EXPECT_GE(best, 0.5);
}

// Every gather stands in update, behind the optimizers: without carry there is nothing to hide it behind but these.
TEST(Overlap, GathersOfUpdatedWeightsRunOnIntoTheNextUpdate) {
  Gpt2Run run = small(true);
  run.config.stage = 2;
  run.config.reduceBucketSize = 100'000;
  double computeUs = trainAndLook(run).computeUs / (kUpdates - 1);
  run.linkBytesPerSecond = 820736 * 2.0 / (0.2e-6 * computeUs);
  run.config.carry = "off";
  EXPECT_EQ(trainAndLook(run).carriedUs, 0);
  run.config.carry = "auto";
  double best = 0;
  for (int attempt = 0; attempt < 5 && best < 0.05; ++attempt) {
    Seen carried = trainAndLook(run);
    best = std::max(best, carried.carriedUs / carried.gatherUs);
    std::printf("%.0f %% of the gather time is beside the next update\n", 100 * best);
  }
  EXPECT_GT(best, 0.05); // of update 2 of 2; half is the most
}

} // namespace

#endif
