// SPDX-License-Identifier: Apache-2.0
//
// That real runs go by the rules of passes/Simulate.h: with kernels that sleep, and over a slow link, an instruction begins
// when the one before on its stream, what it waits for, and, at a program's begin, the program before have ended; never
// earlier, and in the best of some updates at once.
#include "ir/GraphText.h"
#include "passes/Passes.h"
#include "passes/Simulate.h"
#include "runtime/Trainer.h"
#include "test/unit/ScheduleSamples.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace ds;

namespace {

constexpr int kUpdates = 12;

const char *sleepAwhile(const DsLaunch *l, void *) {
  int64_t n = l->numOuts > 0 ? elems(l->outs[0]) : 0;
  std::this_thread::sleep_for(std::chrono::microseconds(200 + 100 * (n % 7)));
  return nullptr;
}

Device sleepingDevice() {
  static const DsKernel kernel = {"any", "", nullptr, sleepAwhile, nullptr, nullptr, nullptr};
  return {"sleep", {{"sleep", [](const char *, DType) { return &kernel; }}}};
}

Schedule planned(int64_t stage, int64_t gradAccum, const char *carry, bool offload = false) {
  auto m = parseModule(kDamageMlp, "mlp.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  PlanConfig c;
  c.stage = stage, c.world = 2, c.microBatch = 4, c.gradAccum = gradAccum;
  c.trainBatch = 8 * gradAccum;
  c.persistenceThreshold = 0;
  c.carry = carry;
  c.offloadOptimizer = offload ? "cpu" : "";
  c.optimizer.type = "adam";
  c.loss.kind = LossConfig::Kind::Mse;
  c.loss.logits = "logits";
  c.loss.labels = "target";
  auto s = planSchedule(**m, c);
  EXPECT_TRUE(s.ok()) << s.status().str();
  return *s;
}

// Of rank 0, in ns: [update][program][label]. Programs are those of at most 3 micro-batches, so each runs once.
using Seen = std::map<int64_t, std::map<std::string, std::map<std::string, Span>>>;

Seen readTrace(const std::string &path) {
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  auto trace = llvm::json::parse(file.str());
  EXPECT_TRUE(static_cast<bool>(trace));
  Seen seen;
  for (const llvm::json::Value &v : *trace->getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object &e = *v.getAsObject();
    if (e.getString("ph") != llvm::StringRef("X") || *e.getInteger("pid") != 0)
      continue;
    const llvm::json::Object &args = *e.getObject("args");
    double begin = *e.getNumber("ts") * 1e3;
    seen[*args.getInteger("update")][args.getString("program")->str()][e.getString("name")->str()] =
        {std::llround(begin), std::llround(begin + *e.getNumber("dur") * 1e3)};
  }
  return seen;
}

void expectTheRules(const Schedule &s) {
  RunOptions o;
  o.data = "synthetic:1";
  o.linkBytesPerSecond = 2e6;
  o.traceEvents = 1 << 14;
  auto t = Trainer::create(s, sleepingDevice(), o);
  ASSERT_TRUE(t.ok()) << t.status().str();
  for (int u = 0; u < kUpdates; ++u)
    ASSERT_TRUE((*t)->step().ok());
  std::string path = ::testing::TempDir() + "ds-simulate-" + std::to_string(::getpid()) + ".json";
  ASSERT_TRUE((*t)->writeTrace(path).ok());
  Seen seen = readTrace(path);
  std::remove(path.c_str());

  std::map<std::string, int64_t>
      least; // of program and label: how long after all that it had to wait for
  for (int64_t u = 1; u < kUpdates; ++u) {
    const SchedProgram *before = s.program("update");
    auto *ends = &seen[u - 1]["update"];
    for (const SchedProgram &p : s.programs) {
      if (p.name == "start")
        continue;
      auto &spans = seen[u][p.name];
      int64_t begun = 0;
      std::array<int64_t, kStreams> free{};
      for (const Instr &i : before->instrs) {
        int64_t end = (*ends)[i.label].end;
        begun = i.carry ? begun : std::max(begun, end);
        free[static_cast<int>(i.stream)] = std::max(free[static_cast<int>(i.stream)], end);
      }
      for (const Instr &i : p.instrs) {
        int64_t &own = free[static_cast<int>(i.stream)];
        int64_t ready = std::max(begun, own);
        for (int w : i.waits)
          ready = std::max(ready, spans[p.instrs[w].label].end);
        std::vector<int> carried = carriedOut(*before);
        for (int c : i.carriedWaits)
          ready = std::max(ready, (*ends)[before->instrs[carried[c]].label].end);
        own = spans[i.label].end;
        int64_t late = spans[i.label].begin - ready;
        EXPECT_GE(late, -2) << p.name << " " << i.label; // the trace's last digit
        auto [it, added] = least.try_emplace(p.name + " " + i.label, late);
        it->second = std::min(it->second, late);
      }
      before = &p;
      ends = &spans;
    }
  }
  // Kernels sleep for at least 200 us, so something that was waited for in vain would show.
  for (const auto &[what, late] : least)
    EXPECT_LT(late, 150'000) << what;
  EXPECT_GT(least.size(), 30u);
}

} // namespace

TEST(SimulateExecutor, RealRunsGoByTheRules) {
  {
    SCOPED_TRACE("stage 0");
    expectTheRules(planned(0, 1, ""));
  }
  {
    SCOPED_TRACE("stage 2, gathers carried");
    Schedule s = planned(2, 3, "on");
    EXPECT_FALSE(carriedOut(*s.program("update")).empty());
    expectTheRules(s);
  }
  {
    SCOPED_TRACE("stage 3, a gather carried");
    expectTheRules(planned(3, 2, "on"));
  }
  {
    SCOPED_TRACE("host updates carried");
    Schedule s = planned(2, 1, "on", true);
    const SchedProgram &update = *s.program("update");
    EXPECT_TRUE(std::ranges::any_of(
        carriedOut(update), [&](int k) { return update.instrs[k].stream == Stream::Host; }));
    expectTheRules(s);
  }
}
