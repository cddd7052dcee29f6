// SPDX-License-Identifier: Apache-2.0
//
// Rule S2 against brute force: on random schedules, and on good ones that are damaged. What counts as
// damage that matters is decided by brute force alone.
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <random>

using namespace ds;

namespace {

using Pairs = std::vector<std::pair<int, int>>;

/// Same verdict, and nothing reported that brute force does not find. Returns whether there is a race.
bool expectSameVerdict(const Schedule &s, const std::string &what) {
  Pairs truth = racesByBruteForce(s, s.programs[0]), told = racesReported(s, s.programs[0]);
  EXPECT_EQ(truth.empty(), told.empty()) << what << "\n" << printSchedule(s);
  for (auto pair : told)
    EXPECT_TRUE(std::find(truth.begin(), truth.end(), pair) != truth.end())
        << what << ": " << pair.first << " and " << pair.second << " do not race\n"
        << printSchedule(s);
  return !truth.empty();
}

/// Adds every wait that S2 asks for until it is content.
Schedule repaired(Schedule s) {
  for (int round = 0; round < 100; ++round) {
    Pairs told = racesReported(s, s.programs[0]);
    if (told.empty())
      return s;
    for (auto [i, j] : told)
      s.programs[0].instrs[j].waits.push_back(i);
  }
  ADD_FAILURE() << "adding the missing waits does not end\n" << printSchedule(s);
  return s;
}

TEST(ScheduleRace, RandomSchedulesAgreeWithBruteForce) {
  int racy = 0;
  for (unsigned seed = 0; seed < 600; ++seed)
    racy += expectSameVerdict(randomSchedule(seed, 3 + seed % 12), "seed " + std::to_string(seed));
  EXPECT_GT(racy, 100);
  EXPECT_LT(racy, 550);
}

TEST(ScheduleRace, ReportedWaitsRepairASchedule) {
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_TRUE(racesByBruteForce(repaired(randomSchedule(seed, 16)),
                                  repaired(randomSchedule(seed, 16)).programs[0])
                    .empty())
        << "seed " << seed;
}

TEST(ScheduleRace, DroppedWaitsAgreeWithBruteForce) {
  int mattered = 0, tried = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Schedule good = repaired(randomSchedule(seed, 12));
    for (size_t j = 0; j < good.programs[0].instrs.size(); ++j)
      for (size_t w = 0; w < good.programs[0].instrs[j].waits.size(); ++w, ++tried) {
        Schedule bad = good;
        auto &waits = bad.programs[0].instrs[j].waits;
        waits.erase(waits.begin() + static_cast<int64_t>(w));
        mattered += expectSameVerdict(bad, "seed " + std::to_string(seed) + ", dropped a wait");
      }
  }
  EXPECT_GT(mattered, 100);
  EXPECT_LT(mattered, tried);
}

TEST(ScheduleRace, MovedBuffersAgreeWithBruteForce) {
  int mattered = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Schedule good = repaired(randomSchedule(seed, 12));
    const ArenaInfo &a = good.arenas[0];
    for (size_t b = 0; b < good.programs[0].own.size(); ++b)
      for (int64_t shift : {-256, 256}) {
        Schedule bad = good;
        Buffer &moved = bad.programs[0].own[b];
        moved.offset += shift;
        if (moved.offset >= a.persistentBytes && moved.offset + moved.bytes <= a.bytes)
          mattered += expectSameVerdict(bad, "seed " + std::to_string(seed) + ", moved a buffer");
      }
  }
  EXPECT_GT(mattered, 100);
}

TEST(ScheduleRace, ExchangedInstructionsAgreeWithBruteForce) {
  int mattered = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Schedule good = repaired(randomSchedule(seed, 12));
    for (int k = 0; k + 1 < static_cast<int>(good.programs[0].instrs.size()); ++k) {
      Schedule bad = good;
      // Reordering inside a stream takes away the order that waits relied on.
      if (exchange(bad.programs[0], k))
        mattered += expectSameVerdict(bad, "seed " + std::to_string(seed) + ", exchanged two");
    }
  }
  EXPECT_GT(mattered, 20);
}

TEST(ScheduleRace, EveryWaitOfAPipelinedScheduleMatters) {
  Schedule good = bigSchedule(90);
  Status st = verifySchedule(good);
  ASSERT_TRUE(st.ok()) << st.str();
  ASSERT_TRUE(racesByBruteForce(good, good.programs[0]).empty());
  for (Instr &i : good.programs[0].instrs)
    if (!i.waits.empty()) {
      std::vector<int> waits;
      std::swap(waits, i.waits);
      EXPECT_TRUE(expectSameVerdict(good, "dropped the wait of " + i.label)) << i.label;
      std::swap(waits, i.waits);
    }
}

/// S3 the obvious way: who wrote each byte last, in list order, and under which name. Counts reads that find another's
/// bytes, or bytes that were overwritten under another name.
int staleReadsByBruteForce(const Schedule &s) {
  struct Byte {
    int owner = -1, name = -1;
  };
  const SchedProgram &p = s.programs[0];
  std::vector<Byte> bytes(static_cast<size_t>(s.arenas[0].bytes));
  std::map<std::pair<bool, int>, int> names; // by place
  int stale = 0, number = 0;
  for (const Instr &i : p.instrs) {
    auto each = [&](PlaceRef r, auto body) {
      int buffer = r.isView ? p.views[r.index].buffer : r.index;
      int64_t begin = buffer < 2 ? s.persistent[buffer].offset : p.own[buffer - 2].offset;
      int64_t elems = buffer < 2 ? 64 : p.own[buffer - 2].type.dims[0];
      int64_t stride = 1;
      if (r.isView) {
        begin += p.views[r.index].offset;
        elems = p.views[r.index].type.dims[0];
        stride = p.views[r.index].strides.empty() ? 1 : 2;
      }
      int64_t end = begin + ((elems - 1) * stride + 1) * 4;
      for (int64_t b = begin; b < end; ++b)
        body(buffer, bytes[static_cast<size_t>(b)]);
      return std::tuple(buffer, begin, end);
    };
    auto nothing = [](int, Byte &) {};
    bool wrong = false;
    for (PlaceRef r : i.ins)
      each(r, [&](int buffer, Byte &b) {
        int name = names.try_emplace({r.isView, r.index}, b.name).first->second;
        wrong |= buffer >= 2 && (b.owner != buffer || b.name != name);
      });
    for (PlaceRef r : i.outs) {
      int name = -1;
      bool same = false;
      for (PlaceRef in : i.ins) // the first that lies there
        if (each(in, nothing) == each(r, nothing) && name < 0 && !same) {
          same = in == r;
          name = number;
        }
      int first = INT_MIN;
      each(r, [&](int, Byte &b) { first = first == INT_MIN ? b.name : first; });
      each(r, [&](int buffer, Byte &b) { b = {buffer, same ? first : name}; });
      names.try_emplace({r.isView, r.index}, same ? first : name);
    }
    stale += wrong;
    ++number;
  }
  return stale;
}

TEST(ScheduleLifetime, StaleReadsAgreeWithBruteForce) {
  int clean = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Schedule s = randomSchedule(seed, 1 + seed % 6);
    std::vector<std::string> told; // instructions with at least one finding
    Status st = verifySchedule(s);
    for (const ErrorEntry &e : st.entries())
      if (e.text.find("[S3]") != std::string::npos) {
        size_t label = e.text.find(": ") + 2;
        told.push_back(e.text.substr(label, e.text.find(' ', label) - label));
      }
    std::sort(told.begin(), told.end());
    told.erase(std::unique(told.begin(), told.end()), told.end());
    EXPECT_EQ(static_cast<int>(told.size()), staleReadsByBruteForce(s)) << printSchedule(s);
    clean += told.empty();
  }
  EXPECT_GT(clean, 20);
  EXPECT_LT(clean, 300);
}

TEST(ScheduleLifetime, AShortenedLifeIsFound) {
  Schedule good = bigSchedule(60);
  for (size_t b = 0; b + 1 < good.programs[0].own.size(); ++b) {
    Schedule bad = good;
    --bad.programs[0].own[b].last;
    Status st = verifySchedule(bad);
    EXPECT_NE(st.str().find("[S3]"), std::string::npos) << bad.programs[0].own[b].name;
  }
}

} // namespace
