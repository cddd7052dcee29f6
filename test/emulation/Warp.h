// SPDX-License-Identifier: Apache-2.0
//
// What a warp does together with tensor cores: products of fragments, matrices from shared memory, and copies into it that go
// on while threads compute. As the PTX instructions of kernels/cuda/Mma.cuh say; lane l is groupID l / 4, threadID l % 4.
#pragma once

#include "test/emulation/Grid.h"

namespace ds::emulated {

/// c += a b for a of 16 x 16, b of 16 x 8 elements of 16 bits: mma.sync.m16n8k16 with sums in f32.
void mma16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16,
              const char *file, int line);

/// The rows that the 32 lanes give.
void gatherRows(int mine, int (&all)[32], const char *file, int line);

/// Four 8 x 8 matrices: ldmatrix.x4. Lane l gives the word where row l % 8 of matrix l / 8 begins, a multiple of 4. Each lane reads
/// what it gets.
template <bool kTransposed>
void loadMatrices(uint32_t (&to)[4], const SharedArray<uint32_t> &from, int word, const char *file,
                  int line) {
  if (word % 4)
    fail(std::string(file) + ":" + std::to_string(line) + ": a row begins at word " +
         std::to_string(word) + ", which is not aligned to 16 bytes");
  int rows[32];
  gatherRows(word, rows, file, line);
  const int group = laneOf() / 4, thread = laneOf() % 4;
  for (int m = 0; m < 4; ++m) {
    if (!kTransposed) {
      to[m] = from[rows[8 * m + group] + thread];
      continue;
    }
    auto half = [&](int row) {
      uint32_t pair = from[rows[8 * m + row] + group / 2];
      return group % 2 ? pair >> 16 : pair & 0xffff;
    };
    to[m] = half(2 * thread) | half(2 * thread + 1) << 16;
  }
}

/// A thread's copies of 16 bytes to shared memory: cp.async. What they write is garbage until the thread waits, and only then is
/// their source read.
class PendingCopies {
public:
  /// `from` null: zeros.
  void add(const SharedArray<uint32_t> &to, int word, const void *from) {
    if (count == kMost || word % 4 || reinterpret_cast<uintptr_t>(from) % 16)
      fail(count == kMost ? "a thread has too many copies pending"
                          : "a copy of 16 bytes is not aligned");
    for (int i = 0; i < 4; ++i)
      to[word + i] = UINT32_MAX;
    list[count++] = {&to, word, static_cast<const uint32_t *>(from)};
  }
  void wait() {
    for (int k = 0; k < count; ++k)
      for (int i = 0; i < 4; ++i)
        (*list[k].to)[list[k].word + i] = list[k].from ? list[k].from[i] : 0;
    count = 0;
  }

private:
  static constexpr int kMost = 64;
  struct Copy {
    const SharedArray<uint32_t> *to;
    int word;
    const uint32_t *from;
  };
  Copy list[kMost];
  int count = 0;
};

} // namespace ds::emulated
