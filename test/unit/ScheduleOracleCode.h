// SPDX-License-Identifier: Apache-2.0
//
// What the machine of ScheduleOracle.h runs: memory in cells, programs as lists of steps. Private to it.
#pragma once

#include "test/unit/ScheduleOracle.h"

#include <algorithm>

namespace ds::oracle {

uint64_t mix(uint64_t h, uint64_t v);
uint64_t hashText(std::string_view text); // never 0

/// Cells of a place on one rank.
struct Cells {
  int begin = 0, end = 0;
  int64_t at = 0;     // byte of the place's start
  uint64_t owner = 0; // hash of the temporary's or input's name; 0: another buffer
};

struct Step {
  const Instr *instr = nullptr;
  uint64_t key = 0;                          // of what it does, without what it reads
  std::vector<std::vector<Cells>> ins, outs; // by operand, by rank
  Cells work;
  int64_t slice = 0;                 // collectives: bytes of a slice, as operand
  std::vector<int64_t> packAt;       // pack: bytes from the destination's start, by operand
  uint64_t packInto = 0;             // and the destination's name
  std::array<int, kStreams> waits{}; // how far every stream must be in this program
  std::array<int, kStreams>
      carriedWaits{}; // and in the one before, if that leaves instructions running
};

struct Program {
  const SchedProgram *p = nullptr;
  std::array<std::vector<Step>, kStreams> streams;
  std::vector<std::vector<Cells>> returns;
  std::array<int, kStreams> runsOn{};
};

/// The schedule, translated. Cells are cut where any place begins or ends.
struct Code {
  explicit Code(const Schedule &s) : s(s), world(s.world()) {
    cutCells();
    build();
  }
  Cells cells(const ByteRange &r, int64_t rank) const;
  Cells cells(const Buffer &b) const {
    int64_t begin = baseOf(b.type.space) + b.offset;
    return cells({begin, begin + b.type.bytes()}, 0);
  }
  int cellAt(int64_t byte) const {
    return static_cast<int>(std::lower_bound(bounds.begin(), bounds.end(), byte) - bounds.begin());
  }

  const Schedule &s;
  int64_t world;
  std::vector<int64_t> bounds; // cell k is [bounds[k], bounds[k + 1])
  std::vector<Program> programs;
  std::vector<size_t> sequence; // of programs: start, and two windows
  size_t windowLength = 0, startLength = 0;

private:
  void cutCells();
  void build();
  Step translate(const SchedProgram &p, const Instr &i,
                 const std::vector<std::pair<int, int>> &ordinal,
                 const std::vector<std::pair<int, int>> &running) const;
};

} // namespace ds::oracle
