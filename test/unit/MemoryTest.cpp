// SPDX-License-Identifier: Apache-2.0
//
// Memory of the small GPT-2's plans: state bytes per element are those of the table in docs/memory.md, read off the
// schedule; and the arena is at most 2 % above the maximum load, the least that any placement could reach.
#include "test/unit/Gpt2.h"

#include <gtest/gtest.h>

using namespace ds;
using namespace ds::test;

#ifdef DS_HAVE_CPU_DEVICE

namespace {

Gpt2Run small(int64_t stage, int64_t world, int64_t accum) {
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.config.optimizer.type = "adamw";
  run.config.loss.kind = LossConfig::Kind::CrossEntropy;
  run.config.loss.logits = "logits";
  run.config.stage = stage, run.config.world = world, run.config.gradAccum = accum;
  run.config.microBatch = 4, run.config.trainBatch = 4 * world * accum;
  run.config.persistenceThreshold = 0;
  return run;
}

// Times N, so that all are whole numbers.
struct BytesPerElement {
  int64_t params, states, accums;
};

BytesPerElement table(int64_t stage, int64_t n, int64_t accum) {
  BytesPerElement b = {4 * n, 8 * n, 4};
  if (stage >= 1)
    b.states = 8;
  if (stage <= 1 && accum > 1 && n > 1)
    b.accums = 4 * n + 4;
  if (stage == 3)
    b.params = 4;
  return b;
}

class Memory : public ::testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(Memory, StatesOfTheTableAndTightArena) {
  auto [stage, world] = GetParam();
  for (int64_t accum : {1, 2, 4}) {
    auto s = planGpt2(small(stage, world, accum));
    ASSERT_TRUE(s.ok()) << s.status().str();
    int64_t elems = 0; // with padding
    for (const BucketInfo &b : s->buckets)
      elems += b.elems;
    std::map<BufferKind, int64_t> bytes;
    for (const Buffer &b : s->persistent)
      if (!b.type.dims.empty()) // without the loss
        bytes[b.kind] += b.bytes;
    BytesPerElement expected = table(stage, world, accum);
    EXPECT_EQ(bytes[BufferKind::Param] * world, expected.params * elems)
        << "accumulation " << accum;
    EXPECT_EQ(bytes[BufferKind::State] * world, expected.states * elems)
        << "accumulation " << accum;
    EXPECT_EQ(bytes[BufferKind::Accum] * world, expected.accums * elems)
        << "accumulation " << accum;
    ASSERT_EQ(s->arenas.size(), 1u);
    const ArenaInfo &arena = s->arenas[0];
    EXPECT_GE(arena.bytes, arena.load);
    EXPECT_LE(static_cast<double>(arena.bytes), 1.02 * static_cast<double>(arena.load))
        << "accumulation " << accum;
    RecordProperty("over_load_percent_accum" + std::to_string(accum),
                   std::to_string(100.0 * static_cast<double>(arena.bytes - arena.load) /
                                  static_cast<double>(arena.load)));
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, Memory,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(1, 2, 3, 4, 8)));

} // namespace

#endif
