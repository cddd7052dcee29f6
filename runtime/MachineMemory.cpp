// SPDX-License-Identifier: Apache-2.0
#include "runtime/MachineMemory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <string>

namespace ds {

static int64_t numberIn(const std::string &path) {
  std::ifstream in(path);
  int64_t n = -1;
  return in >> n ? n : -1; // "max" is no number
}

int64_t availableMemory() {
  int64_t bytes = -1;
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    int64_t kib = 0;
    if (key == "MemAvailable:" && in >> kib)
      bytes = kib * 1024;
    in.ignore(1 << 10, '\n');
  }
  int64_t limit = numberIn("/sys/fs/cgroup/memory.max");
  int64_t used = numberIn("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0 && (bytes < 0 || limit - used < bytes))
    bytes = std::max<int64_t>(limit - used, 0);
  return bytes;
}

Status checkMemory(const Schedule &s, int64_t available) {
  int64_t device = 0, host = 0, world = s.world();
  for (const ArenaInfo &a : s.arenas)
    (a.space == Space::Device ? device : host) += a.space == Space::Nvme ? 0 : a.bytes;
  int64_t rank = 0, total = 0;
  bool fits = !__builtin_add_overflow(device, host, &rank) &&
              !__builtin_mul_overflow(rank, world, &total) && total <= available;
  if (available < 0 || fits)
    return {};
  constexpr double kMiB = 1 << 20;
  return Status::error(
             fmt::format(
                 "{} rank{} of {:.1f} MiB device and {:.1f} MiB host memory need more than the "
                 "{:.1f} MiB that this machine has available",
                 world, world == 1 ? "" : "s", static_cast<double>(device) / kMiB,
                 static_cast<double>(host) / kMiB, static_cast<double>(available) / kMiB),
             Code::DoesNotFit)
      .note("fewer ranks, a smaller micro-batch, --recompute layers or --offload-optimizer nvme "
            "need less; "
            "dsplan shows how much");
}

Status checkMemory(const Schedule &s) { return checkMemory(s, availableMemory()); }

} // namespace ds
