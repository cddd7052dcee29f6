// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Warp.h"

#include "kernels/Element.h"

#include <cstring>

namespace ds::emulated {

namespace {

struct Fragments {
  uint32_t a[4], b[2];
};

double half(uint32_t pair, int which, bool bf16) {
  auto bits = static_cast<uint16_t>(which ? pair >> 16 : pair);
  return static_cast<double>(bf16 ? elem::BF16{bits}.value() : elem::F16{bits}.value());
}

} // namespace

void mma16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16,
              const char *file, int line) {
  Fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, all[32];
  std::memcpy(all, gatherWarp(&mine, sizeof mine, file, line), sizeof all);
  const int group = laneOf() / 4, thread = laneOf() % 4;
  // Element (row, k) of a lies in lane row % 8 * 4 + k % 8 / 2, register row / 8 + k / 8 * 2; (k, column) of b in lane
  // column * 4 + k % 8 / 2, register k / 8.
  for (int i = 0; i < 4; ++i) {
    const int row = group + i / 2 * 8, column = 2 * thread + i % 2;
    double sum = static_cast<double>(c[i]);
    for (int k = 0; k < 16; ++k)
      sum += half(all[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2, bf16) *
             half(all[column * 4 + k % 8 / 2].b[k / 8], k % 2, bf16);
    c[i] = static_cast<float>(sum);
  }
}

void gatherRows(int mine, int (&all)[32], const char *file, int line) {
  std::memcpy(all, gatherWarp(&mine, sizeof mine, file, line), sizeof all);
}

} // namespace ds::emulated
