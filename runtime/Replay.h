// SPDX-License-Identifier: Apache-2.0
//
// Copies of a launch's operands at other addresses, between guards, to run the launch on.
#pragma once

#include "runtime/Loader.h"

#include <string>
#include <vector>

namespace ds {

class Replay {
public:
  /// Bytes that the launch may touch. Overlapping ones stay together.
  void add(const std::byte *begin, int64_t bytes);
  /// Of these: what it overwrites, and what it reads.
  void destination(const std::byte *begin, int64_t bytes) {
    destinations.push_back({begin, bytes});
  }
  void operand(const std::byte *begin, int64_t bytes) { operands.push_back({begin, bytes}); }

  /// Copies everything and runs the launch there. Guards, and destinations that are no operands, hold something else
  /// in every trial. Returns the kernel's message or null.
  const char *run(const LoadedInstr &in, int trial);
  /// "" if no guard has changed.
  std::string damage() const;
  /// The copy of these bytes.
  std::vector<std::byte> bytes(const std::byte *begin, int64_t count) const;

private:
  struct Piece {
    const std::byte *begin;
    int64_t bytes;
    const std::byte *end() const { return begin + bytes; }
  };
  struct Block {
    Piece of;
    std::vector<std::byte> memory; // guard, bytes, guard
    size_t first = 0, start = 0;   // where the bytes start: in the first trial, in this one
  };
  void makeBlocks();
  std::byte *moved(const void *p) const;
  std::vector<DsTensor> moved(const DsTensor *t, int32_t n) const;

  std::vector<Piece> pieces, destinations, operands;
  mutable std::vector<Block> blocks;
  std::byte guard{};
};

} // namespace ds
