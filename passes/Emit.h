// SPDX-License-Identifier: Apache-2.0
//
// Shared by the steps between graph and schedule: storage of values, waits, offsets.
#pragma once

#include "ir/Graph.h"
#include "ir/Schedule.h"
#include "passes/Passes.h"
#include "passes/layout/Layout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <array>
#include <optional>

namespace ds {

/// Where a value lives: bytes of a buffer, in the numbering of SchedProgram, with the local type.
struct Place {
  int buffer = -1;
  int64_t offset = 0; // bytes
  Type type;
  bool own = false; // this rank's slice
  /// The value that took the buffer over from the one it is named after, or null.
  const Value *heir = nullptr;
};

/// The type on one rank: a shard's dims become this rank's slice.
Type localType(const Type &t, const Module &m);

/// assign-aliases: gives every value of a program a place. Views share their operand's; bound and tied results
/// lie in the storage they update; a gradient that a pack lays into a bucket is computed there; a packed or
/// reduced gradient that is only stored into an accumulator is computed there; a launch's result takes over the buffer
/// of an operand that nothing reads any more, where its kernels may (mayOverwrite); everything else gets a buffer of
/// its own, appended to p.own.
class Storage {
public:
  /// carried: a bucket whose gathered copy is the persistent buffer carryBuffer, or null.
  Storage(const Module &m, const Schedule &s, SchedProgram &p, const Symbol *carried,
          int carryBuffer)
      : module(m), schedule(s), out(p), carried(carried), carryBuffer(carryBuffer) {}

  Status assign(Program &p);
  /// True if the op has nothing left to do: its operand already lies where its result belongs.
  bool isElided(const Op &op) const { return elided.count(&op) != 0; }
  Place of(const Value *v) const { return at(v); } // a copy: places grows
  /// The same while nothing is placed.
  const Place &at(const Value *v) const { return places.find(v)->second; }

private:
  void placeFirstStores(Program &p);
  void placePackOperands(Program &p);
  void placeUnder(const Value *v, const Place &place);
  void placeGathered(Program &p);
  void findLastReads(Program &p);
  Status placeResults(Op &op);
  std::optional<Place> overDyingOperand(const Op &op) const;
  Place viewOf(Op &op) const;
  Place newTemp(const Value *v);

  const Module &module;
  const Schedule &schedule;
  SchedProgram &out;
  const Symbol *carried;
  int carryBuffer;
  llvm::DenseMap<const Value *, Place> places;
  llvm::SmallPtrSet<const Op *, 16> elided;
  llvm::DenseMap<const Op *, int> position;           // in the program
  llvm::DenseMap<const Value *, const Op *> lastRead; // the launch, through views
  llvm::SmallPtrSet<const Value *, 16> outlive;       // read beside compute, or returned
  llvm::DenseMap<const Value *, int>
      alone; // launches' results that have a buffer to themselves: how many came before
};

/// Cuts large updates on the host into slices (OffloadSlices.cpp).
Status sliceUpdates(const Schedule &s, SchedProgram &update, const PlanConfig &c);

/// Assigns offsets (D8), adds the waits that reuse of bytes needs to comm instructions, sets arenas.
Status planMemory(Schedule &s, const PlanConfig &c);

/// Sets Instr::waits from the bytes that instructions touch: an instruction waits for the last conflicting one
/// on each other stream, unless that is already ordered before it; what `update` left running stands in front of the
/// programs that name it. With overlap off, collectives and compute
/// wait for each other as listed. Returns for each instruction, per stream, the last instruction
/// that is ordered before or equal to it, or -1.
std::vector<std::array<int, kStreams>> computeWaits(const Schedule &s, SchedProgram &p,
                                                    bool overlap);

/// Sets first and last of the program's own buffers (list order), with every end moved to the first compute
/// instruction that is already ordered after the last access (D8).
void computeIntervals(const Schedule &s, SchedProgram &p,
                      const std::vector<std::array<int, kStreams>> &orderedBefore);

} // namespace ds
