// SPDX-License-Identifier: Apache-2.0
//
// Judges schedules without the verifier: brute force over all pairs of instructions, a machine that runs
// whole windows on all ranks in random order, and the tables derived again. Shares no code with
// ir/ScheduleVerify*.cpp, nor with resolve() and carriedOut(), which that uses.
//
// What the machine computes with are tokens: a write leaves (hash of what was done and read, byte number), so
// two runs agree exactly if every byte of every result comes from the same instructions on the same data.
// Tokens cannot see sizes that only the tables state; that is what `brokenTable` is for.
#pragma once

#include "ir/Schedule.h"

#include <array>
#include <string>
#include <vector>

namespace ds {

/// Where the bytes of a space start: all arenas lie in one address space here, far apart.
inline int64_t baseOf(Space space) { return static_cast<int64_t>(space) << 48; }
/// Null if the schedule has none.
const ArenaInfo *arenaOf(const Schedule &s, Space space);

/// Bytes of a place on one rank, by baseOf; on rank r they start r x step further.
struct ByteRange {
  int64_t begin = 0, end = 0, step = 0;
  ByteRange on(int64_t rank) const { return {begin + rank * step, end + rank * step, 0}; }
  bool meets(const ByteRange &o) const { return begin < o.end && o.begin < end; }
  bool operator==(const ByteRange &) const = default;
};
ByteRange rangeOf(const Schedule &s, const SchedProgram &p, PlaceRef r);

/// What one instruction touches.
struct Touched {
  std::vector<ByteRange> reads, writes;
  ByteRange work;
};
Touched touchedBy(const Schedule &s, const SchedProgram &p, const Instr &i);

/// How many instructions at the end of each of p's streams its end does not wait for (as in runtime/Executor.cpp).
std::array<int, kStreams> runsOn(const SchedProgram &p);
/// These instructions, in the order of the list, which is what waits of the program behind count in.
std::vector<const Instr *> leftRunning(const SchedProgram &p);

/// Two instructions that conflict on some rank although neither is ordered behind the other; empty: none.
/// Returned values are read behind everything that the program's end waits for.
std::string findRace(const Schedule &s);

/// A table, attribute or count that does not say what the instructions do; empty: none. Covers sections,
/// alignment and overlap of buffers, views inside them, spaces and streams, lives, `elems`, `carry` and `carried`,
/// operands that a destination overwrites, and accumulators byte by byte over the window.
std::string brokenTable(const Schedule &s);

struct Outcome {
  bool stuck = false;       // nothing could go on
  bool garbage = false;     // something read bytes that nobody had written
  bool ranksDiffer = false; // a replicated result has not the same bits everywhere
  std::vector<uint64_t>
      results; // weights, states, scalars, carry buffers, returned values, of all ranks
  bool foreign =
      false; // something read through one temporary what was written through another; no result
  bool operator==(const Outcome &o) const {
    return stuck == o.stuck && garbage == o.garbage && ranksDiffer == o.ranksDiffer &&
           results == o.results;
  }
};
/// Two windows from the start, on all ranks, `runs` times; which stream of which rank goes on next is drawn from
/// `seed`. Inputs, accumulators and temporaries are unwritten where the format says that they hold nothing.
std::vector<Outcome> runWindows(const Schedule &s, unsigned seed, int runs);

struct Verdict {
  enum Kind {
    Harmless, // every run gives the undamaged outcome
    Matters,  // broken table, race, no progress, unwritten bytes, ranks or runs that disagree
    OtherProgram, // every run on every rank agrees, but on another outcome: a sound schedule of another computation
  } kind;
  enum Proof { None, Table, Race, Run } proof = None; // what decided that it matters
  bool seen = false;    // a race that changed the outcome of a run here
  bool foreign = false; // harmless, but only by luck: see Outcome
  std::string why;
};
/// `good`: what every run of the undamaged schedule gives. `mayComputeOther`: the damage changes what is computed, not
/// only order, memory or tables. Fails a test if brute force and the machine disagree.
Verdict judge(const Schedule &bad, const Outcome &good, bool mayComputeOther, unsigned seed,
              int runs);

} // namespace ds
