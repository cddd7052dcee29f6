// SPDX-License-Identifier: Apache-2.0
//
// Watches what instructions really touch, instruction by instruction; works on one rank that executes in list
// order on one thread. Costs twice the arena's memory and a pass over the arena for every instruction.
//   - An instruction changes only the bytes of its destinations and workspace: the arena is compared with a copy.
//     An nvme arena is no memory; its BlockFile checks what it reads (BlockFileOptions::checksums).
//   - Temporaries are filled with 0xff (NaN) when their life begins and ends, so stale reads are seen.
//   - Every launch first runs twice on copies of its operands, between guards and over destinations that are filled
//     differently each time: results that differ, or changed guards, show reads and writes outside of the operands,
//     elements never written, and kernels that depend on addresses or on earlier calls.
#pragma once

#include "runtime/Loader.h"

#include <string>
#include <vector>

namespace ds {

/// What an in-order run calls around every instruction. A message is an error and ends the run; it must live until
/// the next call.
class InstrHook {
public:
  virtual ~InstrHook() = default;
  virtual const char *beginProgram(const LoadedProgram &p) = 0;
  virtual const char *before(const LoadedProgram &p, const LoadedInstr &in) = 0;
  virtual const char *after(const LoadedProgram &p, const LoadedInstr &in) = 0;
};

class MemoryWatch final : public InstrHook {
public:
  /// Both must outlive it.
  MemoryWatch(const Schedule &s, const LoadedRank &rank) : s(s), rank(rank) {}

  const char *beginProgram(const LoadedProgram &p) override;
  const char *before(const LoadedProgram &p, const LoadedInstr &in) override;
  const char *after(const LoadedProgram &p, const LoadedInstr &in) override;

  int64_t instructions() const { return watched; }
  int64_t replayed() const { return launches; } // launches that ran twice elsewhere

private:
  struct Range {
    size_t arena;
    int64_t begin, end; // bytes of the arena
    bool write;
    bool dense = true; // every byte belongs to an element
  };
  Range rangeOf(const SchedProgram &p, PlaceRef r, bool write) const;
  std::vector<Range> ranges(const SchedProgram &p, const Instr &i) const;
  size_t arenaOf(Space space) const;
  std::byte *at(size_t arena, int64_t byte) const;
  void poison(const Buffer &b);
  const char *compare(const SchedProgram *p, size_t arena, int64_t begin, int64_t end,
                      const std::string &who);
  const char *replay(const LoadedProgram &p, const LoadedInstr &in);
  const char *keep(std::string text);

  const Schedule &s;
  const LoadedRank &rank;
  std::vector<std::vector<std::byte>> shadow;  // by arena; empty before the first program
  std::vector<std::vector<std::byte>> results; // of the last replay, by destination
  int64_t watched = 0, launches = 0;
  std::string message;
};

} // namespace ds
