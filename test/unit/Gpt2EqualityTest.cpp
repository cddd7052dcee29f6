// SPDX-License-Identifier: Apache-2.0
//
// The small GPT-2 at a fixed global batch of 48, AdamW with clipping, on the cpu device: weights, losses and norms are
// bit-equal at equal world size whatever the stage, bucket size and overlap (D7), and near across world sizes.
//   Gpt2EqualitySlow: worlds 1, 2, 3, 4, 8 x accumulation 1, 2 x stages 0-3 x 3 bucket sizes x overlap on, off, all of
//     them: 2 updates of 4 tokens per row; then 3 updates of 16 tokens, with bucket size and overlap taken in turn.
//   Gpt2Equality: worlds 2 and 3 of the second.
#include "test/unit/Gpt2.h"

#include "tools/Devices.h"
#include "tools/Workspace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

using namespace ds;
using namespace ds::test;

#ifdef DS_HAVE_CPU_DEVICE

namespace {

constexpr int64_t kBatch = 48;
constexpr int64_t kBuckets[] = {500'000'000, 50'000, 1'000}; // elements

struct Trained {
  Tensors weights;
  std::vector<double> losses, norms;
};

struct Setting {
  int64_t sequence, updates, world, accum;
};

class Matrix {
public:
  explicit Matrix(Setting s) : setting(s) {
    ImportOptions o;
    o.microBatch = kBatch / (s.world * s.accum);
    o.dims = {{"seq", s.sequence}};
    auto m = importOnnx(inTree("models/gpt2-small/model.onnx"), o);
    EXPECT_TRUE(m.ok()) << m.status().str();
    if (m.ok())
      model = std::move(*m);
  }

  Trained train(int64_t stage, int64_t bucket, bool overlap) {
    PlanConfig c;
    c.optimizer = {.type = "adamw", .lr = 1e-3, .weightDecay = 0.01};
    c.loss.kind = LossConfig::Kind::CrossEntropy;
    c.loss.logits = "logits";
    c.persistenceThreshold = 512;
    c.trainBatch = kBatch, c.microBatch = kBatch / (setting.world * setting.accum);
    c.world = setting.world, c.gradAccum = setting.accum;
    c.stage = stage, c.reduceBucketSize = bucket, c.overlap = overlap;
    c.workspaceBytes = workspaceRule("cpu", /*threads=*/1, c.world);
    Trained run;
    std::unique_ptr<Module> m = clone(*model);
    auto s = planSchedule(*m, c);
    EXPECT_TRUE(s.ok()) << s.status().str();
    auto d = findDevice("cpu");
    if (!s.ok() || !d.ok())
      return run;
    RunOptions o;
    o.data = "tokens:" + inTree("data/train.bin");
    o.shuffle = false;
    o.threads = 1;
    auto t = Trainer::create(std::move(*s), std::move(*d), o);
    EXPECT_TRUE(t.ok()) << t.status().str();
    for (int64_t u = 0; t.ok() && u < setting.updates; ++u) {
      auto r = (*t)->step();
      EXPECT_TRUE(r.ok() && !r->skipped) << r.status().str();
      if (!r.ok())
        return run;
      run.losses.push_back(r->loss);
      run.norms.push_back(r->gradNorm);
    }
    if (t.ok())
      run.weights = weightsOf(**t);
    return run;
  }

private:
  Setting setting;
  std::unique_ptr<Module> model;
};

// Runs stages x buckets x overlaps of one world size and accumulation. Not everything: each stage takes one bucket
// size and one overlap in turn.
void run(Setting s, bool everything) {
  Matrix matrix(s);
  // Under accumulation, stages 0 and 1 add before they reduce, 2 and 3 after.
  std::optional<Trained> early, late;
  int turn = static_cast<int>(s.world + s.accum);
  for (int64_t stage : {0, 1, 2, 3}) {
    if (s.world == 1 && stage > 0 && !everything)
      continue;
    for (int b = 0; b < 3; ++b)
      for (int overlap = 0; overlap < 2; ++overlap) {
        if (!everything && (b != (stage + turn) % 3 || overlap != (stage + turn / 3) % 2))
          continue;
        Trained r = matrix.train(stage, kBuckets[b], overlap != 0);
        ASSERT_EQ(r.weights.size(), 52u);
        std::optional<Trained> &same = s.accum > 1 && s.world > 1 && stage >= 2 ? late : early;
        if (!same)
          same = r;
        std::string what = "stage " + std::to_string(stage) + ", buckets of " +
                           std::to_string(kBuckets[b]) + (overlap ? ", overlap" : "");
        EXPECT_TRUE(same->weights == r.weights) << what;
        EXPECT_EQ(same->losses, r.losses) << what;
        EXPECT_EQ(same->norms, r.norms) << what;
      }
  }
  // Other world sizes add in another order: near, not equal.
  static std::map<int64_t, Trained> first;
  Trained &reference = first.try_emplace(s.sequence, *early).first->second;
  for (const std::optional<Trained> &t : {early, late})
    for (size_t u = 0; t && u < t->losses.size(); ++u) {
      EXPECT_NEAR(t->losses[u], reference.losses[u], 1e-6 * reference.losses[u])
          << "update " << u + 1;
      EXPECT_NEAR(t->norms[u], reference.norms[u], 1e-4 * reference.norms[u]) << "update " << u + 1;
    }
}

class Gpt2Equality : public ::testing::TestWithParam<std::tuple<int64_t, int64_t>> {};
class Gpt2EqualitySlow : public Gpt2Equality {};

TEST_P(Gpt2Equality, InTurn) {
  run({16, 3, std::get<0>(GetParam()), std::get<1>(GetParam())}, false);
}
TEST_P(Gpt2EqualitySlow, InTurn) {
  run({16, 3, std::get<0>(GetParam()), std::get<1>(GetParam())}, false);
}
TEST_P(Gpt2EqualitySlow, Everything) {
  run({4, 2, std::get<0>(GetParam()), std::get<1>(GetParam())}, true);
}

std::string nameOf(const ::testing::TestParamInfo<std::tuple<int64_t, int64_t>> &i) {
  return "World" + std::to_string(std::get<0>(i.param)) + "Accum" +
         std::to_string(std::get<1>(i.param));
}
using ::testing::Combine;
using ::testing::Values;
INSTANTIATE_TEST_SUITE_P(Some, Gpt2Equality, Combine(Values(2, 3), Values(1, 2)), nameOf);
INSTANTIATE_TEST_SUITE_P(All, Gpt2EqualitySlow, Combine(Values(1, 2, 3, 4, 8), Values(1, 2)),
                         nameOf);

} // namespace

#endif
