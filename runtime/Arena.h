// SPDX-License-Identifier: Apache-2.0
//
// One block of memory for everything a rank keeps in one space. Mapped once at load, with huge pages where
// the kernel grants them, and touched by the thread that will use it; never grown.
#pragma once

#include "ir/Status.h"

#include <cstddef>
#include <cstdint>

namespace ds {

class Arena {
public:
  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// Maps and touches `bytes`, filled with the byte `fill`. The start is aligned to at least 4096.
  static StatusOr<Arena> map(int64_t bytes, uint8_t fill);

  /// Page-locks it, so that it is never swapped out. False: the system's limit does not allow that; it stays as it was.
  bool lock();
  bool isLocked() const { return locked; }

  std::byte *data() const { return start; }
  int64_t size() const { return length; }

private:
  std::byte *start = nullptr;
  int64_t length = 0;
  void *mapped = nullptr;
  size_t mappedBytes = 0;
  bool locked = false;
};

} // namespace ds
