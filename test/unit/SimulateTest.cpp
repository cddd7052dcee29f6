// SPDX-License-Identifier: Apache-2.0
//
// The simulation against a machine of threads and counters, as runtime/Executor.cpp has them, on random programs: equal
// to the nanosecond. What runtime/Executor.cpp itself does is looked at in SimulateExecutorTest.cpp.
#include "passes/Simulate.h"
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

using namespace ds;

namespace {

constexpr int kCompute = static_cast<int>(Stream::Compute), kComm = static_cast<int>(Stream::Comm);

Instr on(int stream, std::string label) {
  Instr i;
  i.stream = static_cast<Stream>(stream);
  i.label = std::move(label);
  return i;
}

// Nobody looks at bytes here: streams, waits and what is carried are all there is.
struct Random {
  std::mt19937 bits;
  explicit Random(unsigned seed) : bits(seed) {}
  int below(int n) { return static_cast<int>(bits() % static_cast<unsigned>(n)); }

  SchedProgram program(const std::string &name, int n) {
    SchedProgram p;
    p.name = name;
    for (int k = 0; k < n; ++k) {
      p.instrs.push_back(on(below(3) ? below(kStreams) : kCompute, name + std::to_string(k)));
      Instr &i = p.instrs.back();
      for (int w = below(4); w > 0 && k > 0; --w)
        if (int other = below(k); p.instrs[other].stream != i.stream)
          i.waits.push_back(other);
    }
    return p;
  }

  Schedule schedule(int64_t gradAccum, int carried) {
    Schedule s;
    s.step.gradAccum = gradAccum;
    std::vector<std::string> names = {"micro.only"};
    if (gradAccum > 1)
      names = {"micro.first", "micro.last"};
    if (gradAccum > 2)
      names.insert(names.begin() + 1, "micro.mid");
    for (const std::string &name : names)
      s.programs.push_back(program(name, below(20)));
    SchedProgram update = program("update", below(12));
    for (int c = 0; c < carried; ++c) {
      Instr i = on(1 + below(kStreams - 1), "carried" + std::to_string(c));
      i.carry = true;
      if (!update.instrs.empty())
        if (int w = below(static_cast<int>(update.instrs.size()));
            update.instrs[w].stream != i.stream)
          i.waits = {w};
      update.instrs.push_back(i);
      s.programs[0].carried.push_back(i.label);
    }
    for (Instr &i : s.programs[0].instrs)
      if (int c = carried ? below(carried) : 0; carried && below(3) == 0)
        if (update.instrs[carriedOut(update)[c]].stream != i.stream)
          i.carriedWaits = {c};
    s.programs.push_back(std::move(update));
    return s;
  }

  // Some take no time at all.
  InstrTimes times(const Schedule &s) {
    InstrTimes t;
    for (const SchedProgram &p : s.programs) {
      t.emplace_back();
      for (size_t k = 0; k < p.instrs.size(); ++k)
        t.back().push_back(below(5) ? below(100) : 0);
    }
    return t;
  }
};

struct Seen {
  int64_t update;
  size_t program, instr;
  Span span;
  bool operator<(const Seen &o) const {
    return std::tie(update, order, instr) < std::tie(o.update, o.order, o.instr);
  }
  size_t order = 0; // of the program's run in the update
};

// Threads that wait for counters, on a clock that jumps from one event to the next.
class Machine {
public:
  Machine(const Schedule &s, const InstrTimes &times, int64_t updates) : s(s), times(times) {
    std::vector<size_t> sequence;
    for (int64_t m = 0; m < s.step.gradAccum; ++m)
      sequence.push_back(index(s.step.gradAccum == 1       ? "micro.only"
                               : m == 0                    ? "micro.first"
                               : m == s.step.gradAccum - 1 ? "micro.last"
                                                           : "micro.mid"));
    sequence.push_back(index("update"));
    for (int t = 0; t < kStreams; ++t)
      for (int64_t u = 0; u < updates; ++u)
        for (size_t order = 0; order < sequence.size(); ++order) {
          const SchedProgram &p = s.programs[sequence[order]];
          for (size_t k = 0; k < p.instrs.size(); ++k)
            if (static_cast<int>(p.instrs[k].stream) == t)
              threads[t].todo.push_back({u, sequence[order], k, {}, order});
          threads[t].todo.push_back({u, sequence[order], kJoin, {}, order});
        }
  }

  std::vector<Seen> run() {
    while (true) {
      bool more = true;
      while (more) {
        more = false;
        for (int t = 0; t < kStreams; ++t)
          more |= go(t);
      }
      int64_t next = INT64_MAX;
      for (const Thread &t : threads)
        if (t.busyUntil >= 0)
          next = std::min(next, t.busyUntil);
      if (next == INT64_MAX)
        break;
      now = next;
    }
    for (int t = 0; t < kStreams; ++t)
      EXPECT_EQ(threads[t].at, threads[t].todo.size()) << "stuck";
    std::sort(seen.begin(), seen.end());
    return seen;
  }

  std::vector<int64_t> updateEnds;

private:
  static constexpr size_t kJoin = ~size_t(0);
  struct Thread {
    std::vector<Seen> todo;
    size_t at = 0;
    int64_t busyUntil = -1;
    std::array<int64_t, kStreams> base{};
  };

  size_t index(const std::string &name) const {
    return static_cast<size_t>(s.program(name) - s.programs.data());
  }
  static int64_t count(const SchedProgram &p, int stream, size_t before) {
    int64_t n = 0;
    for (size_t k = 0; k < before && k < p.instrs.size(); ++k)
      n += static_cast<int>(p.instrs[k].stream) == stream;
    return n;
  }

  // Whether thread t made a step at this time.
  bool go(int self) {
    Thread &t = threads[self];
    if (t.at == t.todo.size() || t.busyUntil > now)
      return false;
    Seen &what = t.todo[t.at];
    const SchedProgram &p = s.programs[what.program];
    if (t.busyUntil >= 0) { // has ended
      t.busyUntil = -1;
      ++done[self];
      seen.push_back(what);
      ++t.at;
      return true;
    }
    if (what.instr == kJoin)
      return join(self, t, p);
    const Instr &i = p.instrs[what.instr];
    for (int w : i.waits) {
      int other = static_cast<int>(p.instrs[w].stream);
      if (done[other] < t.base[other] + count(p, other, static_cast<size_t>(w)) + 1)
        return false;
    }
    const SchedProgram &update = *s.program("update");
    std::vector<int> carried = carriedOut(update);
    for (int c : i.carriedWaits) {
      const Instr &waited = update.instrs[carried[c]];
      int64_t behind = 0; // on its stream, that was carried with it and comes after
      for (size_t k = static_cast<size_t>(c) + 1; k < carried.size(); ++k)
        behind += update.instrs[carried[k]].stream == waited.stream;
      int other = static_cast<int>(waited.stream);
      if (done[other] < t.base[other] - behind)
        return false;
    }
    t.busyUntil = now + times[what.program][what.instr];
    what.span = {now, t.busyUntil};
    return true;
  }

  bool join(int self, Thread &t, const SchedProgram &p) {
    for (int other = 0; other < kStreams; ++other) {
      if (other == self || (self != kCompute && other != kCompute))
        continue;
      int64_t target = count(p, other, p.instrs.size()) + (other == kCompute);
      for (const Instr &i : p.instrs)
        target -= i.carry && static_cast<int>(i.stream) == other;
      if (done[other] < t.base[other] + target)
        return false;
    }
    for (int other = 0; other < kStreams; ++other)
      t.base[other] += count(p, other, p.instrs.size()) + (other == kCompute);
    if (self == kCompute) {
      ++done[kCompute];
      if (p.name == "update")
        updateEnds.push_back(now);
    }
    ++t.at;
    return true;
  }

  const Schedule &s;
  const InstrTimes &times;
  std::array<Thread, kStreams> threads;
  std::array<int64_t, kStreams> done{};
  int64_t now = 0;
  std::vector<Seen> seen;
};

std::vector<Seen> simulated(const Schedule &s, const Simulation &sim) {
  std::vector<Seen> all;
  size_t order = 0;
  int64_t update = 0;
  for (const SimRun &r : sim.runs) {
    if (r.update != update)
      update = r.update, order = 0;
    for (size_t k = 0; k < s.programs[r.program].instrs.size(); ++k)
      all.push_back({r.update, r.program, k, sim.at(r, k), order});
    ++order;
  }
  return all;
}

} // namespace

TEST(Simulate, EqualsThreadsAndCountersToTheNanosecond) {
  constexpr int kUpdates = 4;
  int64_t compared = 0, late = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Schedule s = random.schedule(1 + random.below(5), random.below(4));
    InstrTimes times = random.times(s);
    Machine machine(s, times, kUpdates);
    std::vector<Seen> want = machine.run();
    Simulation sim = simulate(s, times, kUpdates);
    std::vector<Seen> got = simulated(s, sim);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      ASSERT_EQ(got[k].instr, want[k].instr);
      ASSERT_EQ(got[k].span.begin, want[k].span.begin) << got[k].update << " " << got[k].instr;
      ASSERT_EQ(got[k].span.end, want[k].span.end);
      late += got[k].span.end > machine.updateEnds[got[k].update];
    }
    compared += static_cast<int64_t>(got.size());
    ASSERT_EQ(machine.updateEnds.size(), static_cast<size_t>(kUpdates));
    EXPECT_EQ(sim.step.end, machine.updateEnds[kUpdates - 1]);
    EXPECT_EQ(sim.step.begin, machine.updateEnds[kUpdates - 2]);
    // Updates are alike from the second one on.
    EXPECT_EQ(simulate(s, times, 2).stepNs(), sim.stepNs());
    EXPECT_EQ(machine.updateEnds[1] - machine.updateEnds[0], sim.stepNs());
  }
  EXPECT_GT(compared, 100'000);
  EXPECT_GT(late, 500) << "carried instructions hardly ever outlast their update";
}

TEST(Simulate, SharesAddUpToTheStep) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Schedule s = random.schedule(1 + random.below(4), random.below(4));
    InstrTimes times = random.times(s);
    Simulation sim = simulate(s, times, 3);
    int64_t critical = 0, exposed = 0;
    std::array<int64_t, kStreams> busy{};
    for (int t = 0; t < kStreams; ++t) {
      critical += sim.streams[t].critical;
      exposed += sim.streams[t].exposed;
      EXPECT_LE(sim.streams[t].busy, sim.stepNs());
    }
    EXPECT_EQ(critical, sim.stepNs());
    EXPECT_EQ(sim.streams[kCompute].busy + exposed, sim.stepNs());
    EXPECT_EQ(sim.streams[kCompute].exposed, 0);
    for (size_t k = 0; k < s.programs.size(); ++k)
      for (size_t i = 0; i < s.programs[k].instrs.size(); ++i)
        busy[static_cast<int>(s.programs[k].instrs[i].stream)] +=
            times[k][i] * (s.programs[k].name == "micro.mid" ? s.step.gradAccum - 2 : 1);
    for (int t = 0; t < kStreams; ++t)
      EXPECT_EQ(sim.streams[t].busy, busy[t]) << t;
  }
}

TEST(Simulate, TellsWhatBinds) {
  // A gather of 30 ns that a launch of 10 waits for, behind another launch of 10.
  Schedule s;
  SchedProgram p;
  p.name = "micro.only";
  p.instrs = {on(kComm, "gather"), on(kCompute, "a"), on(kCompute, "b")};
  p.instrs[2].waits = {0};
  s.programs = {p};
  s.programs.emplace_back().name = "update";
  Simulation sim = simulate(s, {{30, 10, 10}, {}});
  EXPECT_EQ(sim.stepNs(), 40);
  EXPECT_EQ(sim.streams[kComm].critical, 30);
  EXPECT_EQ(sim.streams[kCompute].critical, 10);
  EXPECT_EQ(sim.streams[kComm].exposed, 20);
  EXPECT_EQ(sim.streams[kComm].busy, 30);
  EXPECT_EQ(sim.streams[kCompute].busy, 20);
}

TEST(Simulate, TenThousandInstructionsTakeMilliseconds) {
  Schedule s = bigSchedule(10'000);
  InstrTimes times;
  for (const SchedProgram &p : s.programs)
    times.emplace_back(p.instrs.size(), 1000);
  double best = 1e9;
  for (int k = 0; k < 5; ++k) {
    auto start = std::chrono::steady_clock::now();
    Simulation sim = simulate(s, times);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    EXPECT_GT(sim.stepNs(), 8'000'000);
  }
  std::printf("10,000 instructions: %.2f ms\n", best);
  EXPECT_LT(best, 100); // a machine that is busy, or a build that is not optimised
}
