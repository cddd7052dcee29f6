// SPDX-License-Identifier: Apache-2.0
#include "runtime/Arena.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <utility>

namespace ds {

static constexpr size_t kHugePage = size_t(2) << 20;

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(start, other.start);
  std::swap(length, other.length);
  std::swap(mapped, other.mapped);
  std::swap(mappedBytes, other.mappedBytes);
  std::swap(locked, other.locked);
  return *this;
}

Arena::~Arena() {
  if (mapped)
    munmap(mapped, mappedBytes);
}

bool Arena::lock() {
  if (!locked && start)
    locked = mlock(start, static_cast<size_t>(length)) == 0;
  return locked;
}

StatusOr<Arena> Arena::map(int64_t bytes, uint8_t fill) {
  Arena a;
  a.length = bytes;
  if (bytes == 0)
    return a;
  if (bytes < 0 || bytes > INT64_MAX / 2)
    return Status::error(fmt::format("an arena of {} bytes is impossible", bytes));
  // Small arenas stay on small pages; a huge page would cost more than it holds.
  size_t align = static_cast<size_t>(bytes) >= kHugePage ? kHugePage : 4096;
  size_t wanted = static_cast<size_t>(bytes) + align;
  void *p = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return Status::error(
        fmt::format("cannot map an arena of {} bytes: {}", bytes, std::strerror(errno)));
  a.mapped = p;
  a.mappedBytes = wanted;
  auto begin = (reinterpret_cast<uintptr_t>(p) + align - 1) / align * align;
  a.start = reinterpret_cast<std::byte *>(begin);
  if (align == kHugePage)
    madvise(a.start, static_cast<size_t>(bytes) / kHugePage * kHugePage, MADV_HUGEPAGE);
  std::memset(a.start, fill, static_cast<size_t>(bytes));
  return a;
}

} // namespace ds
