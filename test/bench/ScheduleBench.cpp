// SPDX-License-Identifier: Apache-2.0
//
// Reading, printing and verifying a schedule of 10,000 instructions. Aims: parse under 100 ms, verify
// under 50 ms.
#include "test/unit/ScheduleSamples.h"

#include <benchmark/benchmark.h>

using namespace ds;

static void parse(benchmark::State &state) {
  std::string text = printSchedule(bigSchedule(static_cast<int>(state.range(0))));
  for (auto _ : state) {
    StatusOr<Schedule> s = parseSchedule(text, "bench");
    benchmark::DoNotOptimize(s);
  }
}
BENCHMARK(parse)->Name("schedule/parse")->Arg(10000)->Unit(benchmark::kMillisecond);

static void print(benchmark::State &state) {
  Schedule s = bigSchedule(static_cast<int>(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(printSchedule(s));
}
BENCHMARK(print)->Name("schedule/print")->Arg(10000)->Unit(benchmark::kMillisecond);

static void verify(benchmark::State &state) {
  Schedule s = bigSchedule(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    Status st = verifySchedule(s);
    if (!st.ok())
      state.SkipWithError("the schedule is not valid");
  }
}
BENCHMARK(verify)->Name("schedule/verify")->Arg(10000)->Unit(benchmark::kMillisecond);
