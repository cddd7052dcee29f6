// SPDX-License-Identifier: Apache-2.0
//
// Every kind of damage to planned schedules of all stages. What matters is decided by test/unit/ScheduleOracle.h; the
// verifier finds all of that, and nothing else but what kStrict lists.
#include "test/unit/ScheduleDamages.h"
#include "test/unit/DamageBases.h"
#include "test/unit/ScheduleOracle.h"
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

using namespace ds;

namespace {

constexpr InstrKind kKinds[] = {
    InstrKind::Launch,    InstrKind::AllGather, InstrKind::ReduceScatter,
    InstrKind::AllReduce, InstrKind::Feed,      InstrKind::Offload,
    InstrKind::Fetch,     InstrKind::Read,      InstrKind::Write};

/// Where the verifier is stricter than harm on purpose (docs/schedule.md, "Stricter than harm").
struct Strict {
  std::string_view rule, text;
  bool ifForeign = false; // only where a run reads through one temporary what another has left
};
constexpr Strict kStrict[] = {
    // Says nothing new, so it was meant to say something else.
    {"[S4]", "waits twice for the same"},
    {"[S4]", "on its own stream, which is in order anyway"},
    // The list is not an order in which it could run.
    {"[S4]", "which comes later in the program"},
    // What changes once in a window or program is told twice, and by luck gets the same bits.
    {"[S8]", "has fed already"},
    {"[S8]", "has changed already in this window"},
    {"[S8]", "which are gathered already"},
    {"[S8]", "has updated already"},
    {"[S12]", "has gathered it already"},
    // Weights are overwritten, and by luck the master's come before anything reads them.
    {"[S8]", "which only update may do"},
    // The right bytes are there by luck, left by something else.
    {"[S3]", "has overwritten as", true},
    {"[S3]", "which nothing has written yet", true},
    // What was overwritten in place is read by its old name, and the new value was meant.
    {"[S3]", "has overwritten under another name"},
};

bool isStrict(const ErrorEntry &e, bool foreign) {
  return std::any_of(std::begin(kStrict), std::end(kStrict), [&](const Strict &k) {
    return e.text.find(k.rule) != std::string::npos && e.text.find(k.text) != std::string::npos &&
           (foreign || !k.ifForeign);
  });
}

struct Count {
  int tried = 0, table = 0, race = 0, seen = 0, run = 0, harmless = 0, strict = 0, otherTold = 0,
      other = 0;
  int mattered() const { return table + race + run; }
  void operator+=(const Count &c) {
    tried += c.tried, table += c.table, race += c.race, seen += c.seen, run += c.run;
    harmless += c.harmless, strict += c.strict, otherTold += c.otherTold, other += c.other;
  }
};

class Campaign {
public:
  /// Damages one schedule everywhere, or at every stride-th place.
  void base(const Base &b, unsigned seed, int stride);
  void print() const;
  Count total() const;
  Count on(InstrKind k) const;
  int misses = 0, falseAlarms = 0;

private:
  void one(const Damaged &d, const Outcome &good, unsigned seed);
  static int strideOf(Damage d, int stride);
  static constexpr int kShown = 12;
  std::map<std::pair<int, int>, Count> counts; // by damage and instruction kind
};

void Campaign::one(const Damaged &d, const Outcome &good, unsigned seed) {
  bool mayComputeOther = ds::mayComputeOther(d.damage);
  Verdict truth = judge(d.schedule, good, mayComputeOther, seed, 3);
  Status st = verifySchedule(d.schedule);
  Count &c = counts[{static_cast<int>(d.damage), static_cast<int>(d.on)}];
  ++c.tried;
  switch (truth.kind) {
  case Verdict::Matters:
    c.table += truth.proof == Verdict::Table;
    c.race += truth.proof == Verdict::Race;
    c.run += truth.proof == Verdict::Run;
    c.seen += truth.seen;
    if (st.ok() && ++misses <= kShown)
      ADD_FAILURE() << "missed: " << truth.why;
    break;
  case Verdict::OtherProgram:
    ++(st.ok() ? c.other : c.otherTold);
    break;
  case Verdict::Harmless:
    ++c.harmless;
    c.strict += !st.ok();
    for (const ErrorEntry &e : st.entries())
      if (!isStrict(e, truth.foreign) && ++falseAlarms <= kShown)
        ADD_FAILURE() << "harmless, but told: " << e.text;
  }
}

void Campaign::base(const Base &b, unsigned seed, int stride) {
  SCOPED_TRACE(b.str());
  Schedule good = planned(b);
  std::vector<Outcome> runs = runWindows(good, seed, 6);
  const Outcome &outcome = runs[0];
  for (const Outcome &o : runs)
    EXPECT_EQ(o, outcome);
  EXPECT_FALSE(outcome.stuck || outcome.garbage || outcome.ranksDiffer || outcome.foreign);
  EXPECT_EQ(findRace(good) + brokenTable(good), "");
  unsigned number = 0;
  for (int k = 0; k < kDamages; ++k) {
    auto d = static_cast<Damage>(k);
    forEachDamage(good, d, seed, strideOf(d, stride), [&](const Damaged &bad) {
      SCOPED_TRACE(bad.what);
      one(bad, outcome, seed * 8192 + number++); // other orders for every damage
    });
  }
}

/// Closer together where there are few places.
int Campaign::strideOf(Damage d, int stride) {
  switch (d) {
  case Damage::DropCarriedWait:
  case Damage::DropCarry:
    return 1;
  case Damage::DropWait:
  case Damage::RedirectWait:
  case Damage::ChangeFirst:
  case Damage::SwapOnStream:
    return (stride + 3) / 4;
  case Damage::ChangeTransfer:
    return (stride + 9) / 10;
  case Damage::ChangeSpace: // tables tell
    return stride * 4;
  default:
    return stride;
  }
}

Count Campaign::total() const {
  Count all;
  for (const auto &[key, c] : counts)
    all += c;
  return all;
}

Count Campaign::on(InstrKind k) const {
  Count all;
  for (const auto &[key, c] : counts)
    if (key.second == static_cast<int>(k))
      all += c;
  return all;
}

void Campaign::print() const {
  std::map<std::string, Count> rows;
  for (const auto &[key, c] : counts)
    rows[std::string(text(static_cast<Damage>(key.first)))] += c;
  auto row = [](const std::string &name, const Count &c) {
    std::printf("%-20s %6d %9d = %6d + %6d (%6d) + %6d %9d %7d %11d %6d\n", name.c_str(), c.tried,
                c.mattered(), c.table, c.race, c.seen, c.run, c.harmless, c.strict, c.otherTold,
                c.other);
  };
  std::printf("%-20s %6s %9s = %6s + %6s (%6s) + %6s %9s %7s %11s %6s\n", "", "tried", "mattered",
              "table", "race", "seen", "run", "harmless", "strict", "other, told", "other");
  for (const auto &[name, c] : rows)
    row(name, c);
  for (InstrKind k : kKinds)
    row(k == InstrKind::Launch ? "on launch" : "on " + std::string(text(k)), on(k));
  row("all", total());
}

std::vector<Base> bases() {
  std::vector<Base> all;
  for (bool tied : {false, true})
    for (int stage = 0; stage < 4; ++stage)
      for (int accum = 1; accum <= 3; ++accum)
        for (int world : {2, 3})
          for (bool overlap : {true, false})
            for (bool carry : {false, true})
              for (bool adam : {true, false})
                all.push_back({tied, stage, accum, world, overlap, carry, adam});
  for (int stage = 0; stage < 4; ++stage) // weights that are rounded from masters
    for (int accum = 1; accum <= 2; ++accum)
      all.push_back({accum == 2, stage, accum, 2, true, stage % 2 == 1, accum == 1, true});
  return all;
}

/// Transfers, host launches and staging. Parameters go there at stage 3 or on one rank.
std::vector<Base> offloaded() {
  std::vector<Base> all;
  for (int stage = 0; stage < 4; ++stage)
    for (int accum : {1, 3})
      for (int which = 1; which < 4; ++which) {
        Base b{accum == 3, stage, accum, stage ? 2 : 1, which != 2 || accum == 3, true};
        b.carry = b.overlap && (accum == 1 || stage % 2 == 1);
        b.optimizer = which & 1, b.param = which & 2;
        b.half = (stage + which) % 2 == 0;
        if (!b.param || b.stage == 3 || b.world == 1)
          all.push_back(b);
      }
  for (int stage = 0; stage < 4; ++stage) { // and reads and writes
    Base b{stage == 1, stage, 1 + stage % 2, stage ? 2 : 1, true, stage != 0};
    b.optimizer = b.nvme = true, b.param = stage == 3, b.half = stage == 2;
    all.push_back(b);
  }
  for (int which = 0; which < 5; ++which) { // and updates in slices
    Base b{which == 1, which < 2 ? 0 : which - 1, 1 + which % 2, which < 2 ? 1 : 2, true,
           which != 1};
    b.optimizer = b.slices = true, b.nvme = which == 0 || which == 2, b.half = which % 2 == 1;
    b.param = which == 4;
    all.push_back(b);
  }
  return all;
}

void expectRight(const Campaign &c, int atLeast) {
  c.print();
  EXPECT_EQ(c.misses, 0);
  EXPECT_EQ(c.falseAlarms, 0);
  Count all = c.total();
  EXPECT_GE(all.mattered(), atLeast);
  EXPECT_GE(all.race + all.run, atLeast / 4); // no table says it
  EXPECT_GE(all.harmless, atLeast / 10);
  EXPECT_GE(all.seen, all.race / 10); // random order shows what brute force knows
  for (InstrKind k : kKinds)
    EXPECT_GE(c.on(k).mattered(), atLeast / 150) << text(k); // few plans read and write
}

TEST(ScheduleDamagesSlow, EveryDamageThatMattersIsFound) {
  Campaign campaign;
  unsigned seed = 1;
  for (const Base &b : bases())
    campaign.base(b, seed++, 14);
  for (const Base &b : offloaded())
    campaign.base(b, seed++, 5);
  expectRight(campaign, 30000);
}

TEST(ScheduleDamages, SampleIsJudgedRight) {
  Campaign campaign;
  unsigned seed = 1000;
  for (const Base &b : bases())
    if (++seed % 7 == 0)
      campaign.base(b, seed, 40);
  for (const Base &b : offloaded())
    campaign.base(b, seed++, b.nvme ? 30 : 60);
  expectRight(campaign, 1000);
}

} // namespace
