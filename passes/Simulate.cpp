// SPDX-License-Identifier: Apache-2.0
#include "passes/Simulate.h"

#include "passes/Report.h"

#include <algorithm>

namespace ds {

namespace {

constexpr int kCompute = static_cast<int>(Stream::Compute);

// What a program finds when it begins, and leaves, relative to its begin.
struct Ends {
  std::array<int64_t, kStreams>
      streams{};                // when each stream has done all it had before; <= 0: is idle
  std::vector<int64_t> carried; // when each carried instruction ends

  bool idle() const {
    return std::all_of(streams.begin(), streams.end(), [](int64_t t) { return t <= 0; });
  }
};

int streamOf(const Instr &i) { return static_cast<int>(i.stream); }

class Simulator {
public:
  Simulator(const Schedule &s, const InstrTimes &times)
      : schedule(s), times(times), idleTiming(s.programs.size(), kNone) {}

  Simulation run(int64_t updates) {
    out.updates = updates;
    for (int64_t u = 0; u < updates; ++u) {
      out.step.begin = now;
      firstRun = out.runs.size();
      for (size_t k = 0; k < schedule.programs.size(); ++k)
        for (int64_t n = runsPerUpdate(schedule.programs[k].name, schedule.step.gradAccum); n > 0;
             --n)
          runProgram(u, k);
      out.step.end = now;
    }
    addBusy();
    addExposed();
    addCritical();
    return std::move(out);
  }

private:
  static constexpr size_t kNone = ~size_t(0);

  // A program that begins with idle streams runs as it did before.
  void runProgram(int64_t update, size_t k) {
    const SchedProgram &p = schedule.programs[k];
    bool again = before.idle() && idleTiming[k] != kNone;
    size_t timing = again ? idleTiming[k] : out.timings.size();
    if (!again) {
      out.timings.push_back(timeProgram(p, times[k]));
      if (before.idle())
        idleTiming[k] = timing;
    }
    const std::vector<Span> &spans = out.timings[timing];
    int64_t length = 0;
    for (int64_t t : before.streams)
      length = std::max(length, t);
    Ends after;
    after.streams = before.streams;
    for (size_t i = 0; i < spans.size(); ++i) {
      after.streams[streamOf(p.instrs[i])] = spans[i].end;
      if (p.instrs[i].carry)
        after.carried.push_back(spans[i].end);
      else
        length = std::max(length, spans[i].end);
    }
    for (int64_t &t : after.streams)
      t -= length;
    for (int64_t &t : after.carried)
      t -= length;
    out.runs.push_back({update, k, {now, now + length}, timing});
    now += length;
    before = std::move(after);
  }

  std::vector<Span> timeProgram(const SchedProgram &p, const std::vector<int64_t> &ns) const {
    std::array<int64_t, kStreams> free = before.streams;
    std::vector<Span> spans(p.instrs.size());
    for (size_t i = 0; i < p.instrs.size(); ++i) {
      const Instr &in = p.instrs[i];
      int64_t begin = std::max<int64_t>(0, free[streamOf(in)]);
      for (int w : in.waits)
        begin = std::max(begin, spans[w].end);
      for (int c : in.carriedWaits)
        if (static_cast<size_t>(c) < before.carried.size()) // else: before the first update
          begin = std::max(begin, before.carried[c]);
      free[streamOf(in)] = begin + ns[i];
      spans[i] = {begin, begin + ns[i]};
    }
    return spans;
  }

  const SchedProgram &programOf(const SimRun &r) const { return schedule.programs[r.program]; }
  // Of the last update, with the program before it, whose carried instructions may still run.
  size_t windowBegin() const { return firstRun - (firstRun > 0); }
  int64_t inWindow(Span s) const {
    return std::max<int64_t>(0, std::min(s.end, out.step.end) - std::max(s.begin, out.step.begin));
  }

  void addBusy() {
    for (size_t r = windowBegin(); r < out.runs.size(); ++r)
      for (size_t i = 0; i < programOf(out.runs[r]).instrs.size(); ++i)
        out.streams[streamOf(programOf(out.runs[r]).instrs[i])].busy +=
            inWindow(out.at(out.runs[r], i));
  }

  // What an instruction began behind: the one before on its stream, or one that it waited for, whichever ended
  // last, compute before others; none: the program began.
  struct Place {
    size_t run = kNone;
    size_t instr = 0;
    bool any() const { return run != kNone; }
  };

  // The last instruction of each stream in the run before r: all that may still run when r begins.
  std::array<Place, kStreams> lastBefore(size_t r) const {
    std::array<Place, kStreams> last;
    if (r == 0)
      return last;
    const SchedProgram &p = programOf(out.runs[r - 1]);
    for (size_t i = 0; i < p.instrs.size(); ++i)
      last[streamOf(p.instrs[i])] = {r - 1, i};
    return last;
  }

  // What the runs before r joined behind, at `when`; nothing that may still run then.
  Place joinedAt(size_t r, int64_t when) const {
    Place best;
    for (size_t k = r; k-- > windowBegin() && !best.any();) {
      const SchedProgram &p = programOf(out.runs[k]);
      for (size_t i = 0; i < p.instrs.size(); ++i)
        if (!p.instrs[i].carry || k + 1 < r)
          choose(best, {k, i}, when);
    }
    return best;
  }

  void choose(Place &best, Place candidate, int64_t when) const {
    const SchedProgram &p = programOf(out.runs[candidate.run]);
    if (out.at(out.runs[candidate.run], candidate.instr).end != when)
      return;
    if (!best.any() || streamOf(p.instrs[candidate.instr]) <
                           streamOf(programOf(out.runs[best.run]).instrs[best.instr]))
      best = candidate;
  }

  Place binding(Place at, const std::vector<int> &previous,
                std::array<Place, kStreams> &last) const {
    const SimRun &run = out.runs[at.run];
    const Instr &in = programOf(run).instrs[at.instr];
    int64_t begin = out.at(run, at.instr).begin;
    Place best;
    if (int k = previous[at.instr]; k >= 0)
      choose(best, {at.run, static_cast<size_t>(k)}, begin);
    else if (Place l = last[streamOf(in)]; l.any())
      choose(best, l, begin);
    for (int w : in.waits)
      choose(best, {at.run, static_cast<size_t>(w)}, begin);
    if (!in.carriedWaits.empty() && at.run > 0) {
      std::vector<int> carried = carriedOut(programOf(out.runs[at.run - 1]));
      for (int c : in.carriedWaits)
        if (static_cast<size_t>(c) < carried.size())
          choose(best, {at.run - 1, static_cast<size_t>(carried[c])}, begin);
    }
    return best.any() || begin > run.span.begin ? best : joinedAt(at.run, begin);
  }

  // The instruction before each one on its stream, or -1.
  static std::vector<int> previousOf(const SchedProgram &p) {
    std::vector<int> previous;
    std::array<int, kStreams> last;
    last.fill(-1);
    for (size_t i = 0; i < p.instrs.size(); ++i) {
      int &l = last[streamOf(p.instrs[i])];
      previous.push_back(l);
      l = static_cast<int>(i);
    }
    return previous;
  }

  // From the end backwards: each instruction's time up to the begin of the window, then what it began behind.
  void addCritical() {
    Place at = joinedAt(out.runs.size(), out.step.end);
    size_t run = kNone;
    std::vector<int> previous;
    std::array<Place, kStreams> last;
    while (at.any()) {
      const SimRun &r = out.runs[at.run];
      Span s = out.at(r, at.instr);
      out.streams[streamOf(programOf(r).instrs[at.instr])].critical += inWindow(s);
      if (s.begin <= out.step.begin)
        break;
      if (run != at.run) {
        run = at.run;
        previous = previousOf(programOf(r));
        last = lastBefore(run);
      }
      at = binding(at, previous, last);
    }
  }

  // Gaps of the compute stream, by the stream of what it waited for.
  void addExposed() {
    for (size_t r = firstRun; r < out.runs.size(); ++r) {
      const SimRun &run = out.runs[r];
      const SchedProgram &p = programOf(run);
      std::vector<int> previous = previousOf(p);
      std::array<Place, kStreams> last = lastBefore(r);
      int64_t free = run.span.begin;
      for (size_t i = 0; i < p.instrs.size(); ++i) {
        if (streamOf(p.instrs[i]) != kCompute)
          continue;
        Span s = out.at(run, i);
        if (s.begin > free)
          addGap(binding({r, i}, previous, last), s.begin - free);
        free = s.end;
      }
      if (run.span.end > free)
        addGap(joinedAt(r + 1, run.span.end), run.span.end - free);
    }
  }

  void addGap(Place behind, int64_t ns) {
    if (behind.any())
      out.streams[streamOf(programOf(out.runs[behind.run]).instrs[behind.instr])].exposed += ns;
  }

  const Schedule &schedule;
  const InstrTimes &times;
  std::vector<size_t> idleTiming; // by program
  Ends before;
  int64_t now = 0;
  size_t firstRun = 0; // of the last update
  Simulation out;
};

} // namespace

Simulation simulate(const Schedule &s, const InstrTimes &times, int64_t updates) {
  return Simulator(s, times).run(updates);
}

} // namespace ds
