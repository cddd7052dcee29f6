// SPDX-License-Identifier: Apache-2.0
//
// Counter-based random numbers: value i is a function of (key, i) alone, so any rank can make any part.
// Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include "ir/HostDevice.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ds {

struct Philox {
  uint64_t key = 0;
  uint64_t stream = 0; // upper half of the counter: independent sequences under one key

  static constexpr int kRounds = 10;
  static constexpr uint32_t kM0 = 0xD2511F53, kM1 = 0xCD9E8D57; // multipliers
  static constexpr uint32_t kW0 = 0x9E3779B9, kW1 = 0xBB67AE85; // what a round adds to the key

  struct Words {
    uint32_t w[4];
  };
  /// Four random words for counter value n.
  DS_HOST_DEVICE Words words(uint64_t n) const {
    Words c = {{static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32),
                static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      uint64_t a = uint64_t(kM0) * c.w[0], b = uint64_t(kM1) * c.w[2];
      c = {{static_cast<uint32_t>(b >> 32) ^ c.w[1] ^ k0, static_cast<uint32_t>(b),
            static_cast<uint32_t>(a >> 32) ^ c.w[3] ^ k1, static_cast<uint32_t>(a)}};
      k0 += kW0;
      k1 += kW1;
    }
    return c;
  }
  std::array<uint32_t, 4> block(uint64_t n) const {
    Words c = words(n);
    return {c.w[0], c.w[1], c.w[2], c.w[3]};
  }

  uint64_t bits(uint64_t i) const { // 64 random bits
    auto b = block(i >> 1);
    int at = (i & 1) ? 2 : 0;
    return b[at] | (uint64_t(b[at + 1]) << 32);
  }

  /// Uniform in [0, n), n > 0. The bias is below n / 2^64.
  uint64_t below(uint64_t i, uint64_t n) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(i)) * n) >> 64);
  }

  /// Standard normals 4n .. 4n + 3 (Box-Muller, a pair from each half of the block).
  std::array<double, 4> normals(uint64_t n) const {
    auto b = block(n);
    std::array<double, 4> out;
    for (int pair = 0; pair < 4; pair += 2) {
      double u = (b[pair] + 1.0) * 0x1p-32, v = b[pair + 1] * 0x1p-32; // (0, 1], [0, 1)
      double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
      out[pair] = radius * std::cos(angle);
      out[pair + 1] = radius * std::sin(angle);
    }
    return out;
  }
};

} // namespace ds
