// SPDX-License-Identifier: Apache-2.0
//
// Persistent buffers that lie on nvme, between programs: whatever range is read or written, it is that of a buffer in
// memory, and only one small piece is in memory at once.
#include "runtime/Loader.h"

#include "test/unit/RuntimeModel.h"
#include "test/unit/RuntimeTestFiles.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace ds;
using namespace ds::test;

namespace {

constexpr int64_t kElems = 700001, kBytes = (kElems * 4 + 4095) / 4096 * 4096;

// Two buffers of one kind and contents on nvme, one in memory.
Schedule threeBuffers() {
  Schedule s;
  s.arenas = {{Space::Device, kBytes, kBytes, 256, kBytes},
              {Space::Nvme, 2 * kBytes, 2 * kBytes, kNvmeBlock, 2 * kBytes}};
  for (int k = 0; k < 3; ++k) {
    Buffer b;
    b.name = "b" + std::to_string(k);
    b.kind = BufferKind::State;
    b.type = Type(DType::F32, {kElems});
    b.type.space = k == 0 ? Space::Device : Space::Nvme;
    b.offset = k == 2 ? kBytes : 0;
    b.bytes = kBytes;
    s.persistent.push_back(b);
    InitInfo init;
    init.buffer = k;
    init.source.kind = Source::Kind::Normal;
    init.source.seed = 3, init.source.value = 1;
    s.inits.push_back(init);
  }
  return s;
}

std::vector<std::byte> contents(const LoadedRank &rank, int buffer, int64_t at, int64_t bytes) {
  std::vector<std::byte> out;
  Status s =
      rank.read(buffer, at, bytes, [&](int64_t from, const std::byte *p, int64_t n) -> Status {
        EXPECT_EQ(from, at + static_cast<int64_t>(out.size()));
        EXPECT_EQ(n % 4, 0);
        EXPECT_TRUE(buffer == 0 || n <= 1 << 20) << n;
        out.insert(out.end(), p, p + n);
        return {};
      });
  EXPECT_TRUE(s.ok()) << s.str();
  return out;
}

} // namespace

TEST(RuntimeNvme, RangesAreThoseOfABufferInMemory) {
  Schedule s = threeBuffers();
  TempDir dir;
  LoadOptions o;
  o.nvmePath = dir.path;
  o.nvme.checksums = true;
  auto rank = LoadedRank::load(s, refDevice(), o);
  ASSERT_TRUE(rank.ok()) << rank.status().str();
  const LoadedRank &r = **rank;
  EXPECT_EQ(r.persistent(1), nullptr);
  std::vector<std::byte> first = contents(r, 0, 0, kElems * 4);
  EXPECT_EQ(first, contents(r, 1, 0, kElems * 4)); // the source fills all alike
  EXPECT_EQ(std::vector<std::byte>(static_cast<size_t>(kBytes - kElems * 4)),
            contents(r, 2, kElems * 4, kBytes - kElems * 4));

  std::mt19937_64 random(5);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 30; ++round) {
    int64_t at = 4 * below(kElems), bytes = 4 * below(kElems - at / 4 + 1);
    bytes = round % 3 == 0 ? bytes % 9000 / 4 * 4 : bytes;
    uint64_t seed = random();
    for (int buffer : {0, 1}) {
      int64_t shown = 0;
      Status w = r.write(buffer, at, bytes, [&](int64_t from, std::byte *p, int64_t n) -> Status {
        EXPECT_EQ(from, at + shown);
        for (int64_t i = 0; i < n; ++i)
          p[i] =
              static_cast<std::byte>((seed + static_cast<uint64_t>(from + i)) * 0x9e3779b9u >> 13);
        shown += n;
        return {};
      });
      ASSERT_TRUE(w.ok()) << w.str();
      EXPECT_EQ(shown, bytes);
    }
    int64_t from = 4 * below(kElems), n = 4 * below(kElems - from / 4 + 1);
    ASSERT_EQ(contents(r, 0, from, n), contents(r, 1, from, n)) << round;
  }
  EXPECT_EQ(contents(r, 0, 0, kElems * 4), contents(r, 1, 0, kElems * 4));
  EXPECT_EQ(first, contents(r, 2, 0, kElems * 4)); // the neighbour is as it was
}

TEST(RuntimeNvme, NeedsAFolder) {
  Schedule s = threeBuffers();
  auto rank = LoadedRank::load(s, refDevice(), {});
  ASSERT_FALSE(rank.ok());
  EXPECT_EQ(rank.status().str(),
            "error: the plan keeps 5603328 bytes of every rank on nvme, and no folder is given\n"
            "note: --nvme-path names one, on a local disk\n");
}
