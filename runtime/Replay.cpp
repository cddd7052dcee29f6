// SPDX-License-Identifier: Apache-2.0
#include "runtime/Replay.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ds {

static constexpr size_t kGuard = 4096, kAlign = 4096;

void Replay::add(const std::byte *begin, int64_t bytes) { pieces.push_back({begin, bytes}); }

// Pieces that overlap are one block; pieces that only touch are not, so that reading from one into the next shows.
void Replay::makeBlocks() {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  for (const Piece &p : pieces) {
    if (!blocks.empty() && p.begin < blocks.back().of.end()) {
      Piece &last = blocks.back().of;
      last.bytes = std::max(last.end(), p.end()) - last.begin;
    } else {
      blocks.push_back({p, {}});
    }
  }
  for (Block &b : blocks) {
    b.memory.resize(static_cast<size_t>(b.of.bytes) + 2 * kGuard + 2 * kAlign);
    auto want =
        reinterpret_cast<uintptr_t>(b.of.begin) % kAlign; // vector code may look at alignment
    auto have = reinterpret_cast<uintptr_t>(b.memory.data() + kGuard) % kAlign;
    b.first = kGuard + (want + kAlign - have) % kAlign;
  }
}

std::byte *Replay::moved(const void *p) const {
  auto *at = static_cast<const std::byte *>(p);
  for (Block &b : blocks)
    if (b.of.begin <= at && at < b.of.end())
      return b.memory.data() + b.start + (at - b.of.begin);
  return nullptr; // an empty tensor
}

std::vector<DsTensor> Replay::moved(const DsTensor *t, int32_t n) const {
  std::vector<DsTensor> out(t, t + n);
  for (DsTensor &x : out)
    x.data = moved(x.data);
  return out;
}

const char *Replay::run(const LoadedInstr &in, int trial) {
  if (blocks.empty())
    makeBlocks();
  guard = std::byte(trial == 0 ? 0xa5 : 0x5a);
  auto fill = std::byte(trial == 0 ? 0xff : 0x3c);
  for (Block &b : blocks) {
    b.start = b.first + (trial == 0 ? 0 : kAlign);
    std::fill(b.memory.begin(), b.memory.end(), guard);
    std::memcpy(b.memory.data() + b.start, b.of.begin, static_cast<size_t>(b.of.bytes));
  }
  for (const Piece &d : destinations) {
    bool alsoRead = std::any_of(operands.begin(), operands.end(), [&](const Piece &o) {
      return o.begin < d.end() && d.begin < o.end();
    });
    if (!alsoRead)
      std::memset(moved(d.begin), static_cast<int>(fill), static_cast<size_t>(d.bytes));
  }
  std::vector<DsTensor> ins = moved(in.launch.ins, in.launch.numIns),
                        outs = moved(in.launch.outs, in.launch.numOuts);
  DsLaunch launch = in.launch;
  launch.ins = ins.data();
  launch.outs = outs.data();
  launch.work = in.launch.work ? moved(in.launch.work) : nullptr;
  return in.kernel->run(&launch, in.state);
}

std::string Replay::damage() const {
  for (const Block &b : blocks)
    for (size_t k = 0; k < b.memory.size(); ++k) {
      bool inside = b.start <= k && k < b.start + static_cast<size_t>(b.of.bytes);
      if (!inside && b.memory[k] != guard) {
        auto from = static_cast<int64_t>(k) - static_cast<int64_t>(b.start);
        return from < 0
                   ? fmt::format("writes {} bytes in front of an operand or destination", -from)
                   : fmt::format("writes {} bytes behind the end of an operand or destination",
                                 from - b.of.bytes + 1);
      }
      if (inside)
        k = b.start + static_cast<size_t>(b.of.bytes) - 1;
    }
  return "";
}

std::vector<std::byte> Replay::bytes(const std::byte *begin, int64_t count) const {
  if (count == 0)
    return {};
  const std::byte *p = moved(begin);
  return {p, p + count};
}

} // namespace ds
