// SPDX-License-Identifier: Apache-2.0
#include "runtime/MachineMemory.h"

#include <gmock/gmock.h>

namespace ds {
namespace {

TEST(MachineMemory, ArenasOfAllRanksMustFit) {
  Schedule s;
  s.mesh = {{"dp", 4}};
  s.arenas = {{Space::Device, 100 << 20}, {Space::Host, 50 << 20}, {Space::Nvme, int64_t{1} << 50}};
  EXPECT_TRUE(checkMemory(s, int64_t{600} << 20).ok());
  Status none = checkMemory(s, (int64_t{600} << 20) - 1);
  EXPECT_EQ(none.code(), Code::DoesNotFit);
  EXPECT_THAT(none.str(),
              testing::HasSubstr("4 ranks of 100.0 MiB device and 50.0 MiB host memory"));
  EXPECT_TRUE(checkMemory(s, -1).ok());
  s.arenas[0].bytes = int64_t{1} << 60; // sums must not overflow
  s.arenas[1].bytes = int64_t{1} << 60;
  s.mesh = {{"dp", 1 << 20}};
  EXPECT_FALSE(checkMemory(s, INT64_MAX).ok());
}

TEST(MachineMemory, ThisMachineHasSome) { EXPECT_GT(availableMemory(), 1 << 20); }

} // namespace
} // namespace ds
