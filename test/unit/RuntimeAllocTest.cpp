// SPDX-License-Identifier: Apache-2.0
//
// Stepping allocates nothing, counted from outside.
#include "runtime/Arena.h"
#include "runtime/BlockFile.h"
#include "runtime/Trainer.h"

#include "test/unit/Gpt2.h"
#include "test/unit/RuntimeModel.h"
#include "test/unit/RuntimeTestFiles.h"
#include "tools/AllocCount.h"

#include <gtest/gtest.h>

using namespace ds;
using namespace ds::test;

TEST(RuntimeAlloc, TheCounterCounts) {
  if (!canCountAllocations())
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  startCounting();
  auto *volatile p = new std::vector<int>(100);
  delete p;
  EXPECT_EQ(stopCounting().ours, 2);
}

TEST(RuntimeAlloc, SteppingAllocatesNothing) {
  if (!canCountAllocations())
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  RunOptions o;
  o.data = "synthetic:3";
  o.traceEvents = 1000;
  auto t = Trainer::create(makeMlp(4, 3, 3), refDevice(), o);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
  startCounting();
  bool ok = true;
  for (int i = 0; i < 50; ++i)
    ok &= (*t)->step().ok();
  int64_t allocations = stopCounting().ours;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocations, 0);
}

#ifdef DS_HAVE_CPU_DEVICE
// The same through the planner and the cpu device: the small GPT-2 on four ranks under stage 3.
TEST(RuntimeAlloc, SteppingGpt2AllocatesNothing) {
  if (!canCountAllocations())
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.sequence = 16;
  run.tokens = "data/train.bin";
  run.config.optimizer.type = "adamw";
  run.config.loss.kind = LossConfig::Kind::CrossEntropy;
  run.config.loss.logits = "logits";
  run.config.stage = 3, run.config.world = 4, run.config.gradAccum = 2;
  run.config.microBatch = 2, run.config.trainBatch = 16;
  run.config.persistenceThreshold = 512;
  auto t = startGpt2(run);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
  startCounting();
  bool ok = true;
  for (int i = 0; i < 10; ++i)
    ok &= (*t)->step().ok();
  AllocCounts n = stopCounting();
  EXPECT_TRUE(ok);
  EXPECT_EQ(n.ours, 0);
  EXPECT_EQ(n.frees, n.oneDnn);
  RecordProperty("allocations_inside_onednn", std::to_string(n.oneDnn));
}
#endif

TEST(RuntimeAlloc, BlockFilesAllocateNothing) {
  if (!canCountAllocations())
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  TempDir dir;
  Abort abort;
  auto arena = Arena::map(1 << 20, 1);
  ASSERT_TRUE(arena.ok());
  for (bool uring : {true, false}) {
    auto f = BlockFile::create(dir.path, 0, 1 << 20, {1 << 16, 4, true, true, uring});
    ASSERT_TRUE(f.ok()) << f.status().str();
    startCounting();
    bool ok = (*f)->write(0, arena->data(), 1 << 20, abort).ok() &&
              (*f)->read(0, arena->data(), (1 << 20) - 5, abort).ok();
    int64_t allocations = stopCounting().ours;
    EXPECT_TRUE(ok);
    EXPECT_EQ(allocations, 0);
  }
}
