// SPDX-License-Identifier: Apache-2.0
//
// When every instruction of a schedule begins and ends, given how long each takes: what runtime/Executor.cpp does, with
// time as a number. Streams run their instructions in list order; an instruction begins when the one before it on its
// stream and all that it waits for have ended; a program begins when the one before it has ended, but for what is
// carried. Ranks are alike, so one of them stands for all. Input data are there when they are needed.
#pragma once

#include "passes/Cost.h"

#include <array>

namespace ds {

/// ns.
struct Span {
  int64_t begin = 0, end = 0;
};

/// One execution of a program.
struct SimRun {
  int64_t update = 0;
  size_t program = 0; // index into Schedule::programs
  Span span;          // since the start; one program's end is the next one's begin
  size_t timing = 0;  // index into Simulation::timings
};

/// One stream's part of an update, in ns.
struct StreamTime {
  int64_t busy = 0;    // inside instructions
  int64_t exposed = 0; // compute stands still for it; 0 for compute itself
  int64_t critical =
      0; // of its instructions on the critical path; over all streams, this adds up to the step
};

struct Simulation {
  std::vector<SimRun> runs;               // in order; programs that run alike share their timing
  std::vector<std::vector<Span>> timings; // of a program's instructions, since its begin
  int64_t updates = 0;

  // Of the last update, from the end of the one before. Updates are alike from the second one on.
  Span step;
  std::array<StreamTime, kStreams> streams;

  int64_t stepNs() const { return step.end - step.begin; }
  /// An instruction of a run, since the start; a carried one may end after its run.
  Span at(const SimRun &run, size_t instr) const {
    Span s = timings[run.timing][instr];
    return {s.begin + run.span.begin, s.end + run.span.begin};
  }
};

/// `updates` (at least 1) from the start, when nothing is carried yet.
Simulation simulate(const Schedule &s, const InstrTimes &times, int64_t updates = 2);

} // namespace ds
