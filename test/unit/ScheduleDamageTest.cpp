// SPDX-License-Identifier: Apache-2.0
//
// Planned schedules, damaged in every place of one kind: the verifier agrees with brute force on which
// damages are races, and every damage that takes order away from a transfer is one.
#include "ir/GraphText.h"
#include "passes/Passes.h"
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace ds;

namespace {

Schedule planned(int64_t stage, int64_t gradAccum) {
  PlanConfig c;
  c.stage = stage;
  c.world = 2;
  c.microBatch = 4;
  c.gradAccum = gradAccum;
  c.trainBatch = c.world * c.microBatch * gradAccum;
  c.optimizer.type = "adamw";
  c.loss.kind = LossConfig::Kind::CrossEntropy;
  c.loss.logits = "logits";
  c.persistenceThreshold = 0;
  c.reduceBucketSize = c.allgatherBucketSize = 1024; // several buckets
  auto m = parseModule(kDamageMlp, "mlp.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return std::move(*s);
}

class ScheduleDamage : public testing::TestWithParam<std::pair<int, int>> {
protected:
  Schedule good = planned(GetParam().first, GetParam().second);

  /// Whether the damage to program k is a race; fails if the verifier sees it differently.
  bool isRace(const Schedule &bad, size_t k, const std::string &what) {
    auto truth = racesByBruteForce(bad, bad.programs[k]),
         told = racesReported(bad, bad.programs[k]);
    EXPECT_EQ(truth.empty(), told.empty()) << bad.programs[k].name << ": " << what;
    for (auto pair : told)
      EXPECT_TRUE(std::find(truth.begin(), truth.end(), pair) != truth.end()) << what;
    return !truth.empty();
  }
};

TEST_P(ScheduleDamage, EveryDroppedWaitIsARace) {
  int waits = 0;
  for (size_t k = 0; k < good.programs.size(); ++k) {
    EXPECT_FALSE(isRace(good, k, "as planned"));
    for (size_t j = 0; j < good.programs[k].instrs.size(); ++j)
      for (size_t w = 0; w < good.programs[k].instrs[j].waits.size(); ++w, ++waits) {
        Schedule bad = good;
        Instr &i = bad.programs[k].instrs[j];
        bool throttles = std::count(i.throttles.begin(), i.throttles.end(), i.waits[w]) >
                         0; // bounds memory only
        i.waits.erase(i.waits.begin() + static_cast<int64_t>(w));
        bool race = isRace(bad, k, "dropped wait " + std::to_string(w) + " of " + i.label);
        EXPECT_TRUE(race || throttles) << i.label << " has a wait that orders nothing";
      }
    for (size_t j = 0; j < good.programs[k].instrs.size(); ++j)
      for (size_t w = 0; w < good.programs[k].instrs[j].carriedWaits.size(); ++w, ++waits) {
        Schedule bad = good;
        Instr &i = bad.programs[k].instrs[j];
        i.carriedWaits.erase(i.carriedWaits.begin() + static_cast<int64_t>(w));
        EXPECT_TRUE(isRace(bad, k, "dropped wait for what is carried of " + i.label));
      }
  }
  EXPECT_GT(waits, 10);
}

TEST_P(ScheduleDamage, ExchangedNeighboursAgree) {
  for (size_t k = 0; k < good.programs.size(); ++k)
    for (int j = 0; j + 1 < static_cast<int>(good.programs[k].instrs.size()); ++j) {
      Schedule bad = good;
      if (exchange(bad.programs[k], j))
        isRace(bad, k, "exchanged " + good.programs[k].instrs[j].label + " and the next");
    }
}

TEST_P(ScheduleDamage, BuffersMovedOntoOthersAgree) {
  const ArenaInfo &a = good.arenas[0];
  int races = 0;
  for (size_t k = 0; k < good.programs.size(); ++k)
    for (size_t b = 0; b < good.programs[k].own.size(); ++b)
      for (size_t onto = b % 5; onto < good.programs[k].own.size(); onto += 5) {
        Schedule bad = good;
        Buffer &moved = bad.programs[k].own[b];
        moved.offset = bad.programs[k].own[onto].offset;
        if (moved.offset + moved.bytes <= a.bytes)
          races += isRace(bad, k, "moved " + moved.name);
      }
  // At stage 1 with accumulation, transfers touch hardly any temporary: gradients are reduced from
  // accumulators. Everywhere else some of these moves must be races.
  if (GetParam() != std::pair(1, 2)) {
    EXPECT_GT(races, 0);
  }
}

TEST_P(ScheduleDamage, AccessesOutsideAShortenedLifeAreFound) {
  int found = 0;
  for (size_t k = 0; k < good.programs.size(); ++k)
    for (size_t b = 0; b < good.programs[k].own.size(); ++b) {
      Schedule bad = good;
      SchedProgram &p = bad.programs[k];
      int index = static_cast<int>(bad.persistent.size() + b), last = -1;
      for (size_t j = 0; j < p.instrs.size(); ++j)
        for (const auto *refs : {&p.instrs[j].ins, &p.instrs[j].outs})
          for (PlaceRef r : *refs)
            if ((r.isView ? p.views[r.index].buffer : r.index) == index)
              last = static_cast<int>(j);
      if (last <= p.own[b].first)
        continue;
      p.own[b].last = last - 1;
      ++found;
      EXPECT_NE(verifySchedule(bad).str().find("[S3]"), std::string::npos) << p.own[b].name;
    }
  EXPECT_GT(found, 5);
}

INSTANTIATE_TEST_SUITE_P(Stages, ScheduleDamage,
                         testing::Values(std::pair(0, 1), std::pair(1, 2), std::pair(2, 2),
                                         std::pair(3, 1), std::pair(3, 3)));

} // namespace
