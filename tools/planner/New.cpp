// SPDX-License-Identifier: Apache-2.0
//
// operator new of dsplan. A plan of 10,000 nodes makes millions of small objects, modules of them at a time, and frees them
// together; a general allocator takes half of all time for that, mostly waiting for memory. Here a block of 64 KiB holds
// objects of one size, so that neighbours in time are neighbours in memory and nothing stands between them; freed ones
// make a list per size. Blocks are never given back: the process ends with the plan. One thread has the lists; what other
// threads or larger objects need comes from malloc.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOLS 0              // sanitizers have their own
#elif defined(__has_feature) // clang's way to tell
#define POOLS !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define POOLS 1
#endif

#if POOLS

namespace {

constexpr size_t kGrain = 16, kLargest = 1024; // sizes
constexpr size_t kBlock = 64 << 10, kBlocks = 1 << 18, kRegion = kBlock * kBlocks;

struct Free {
  Free *next;
};

char *region = nullptr, *regionNext = nullptr, *regionEnd = nullptr;
std::array<Free *, kLargest / kGrain + 1> freed;
std::array<char *, kLargest / kGrain + 1> fresh, freshEnd; // the unused part of a block
std::array<uint8_t, kBlocks> sizeOf;                       // of a block's objects, in grains

thread_local bool isOwner = false;
bool isOwned = false;

bool reserve() {
  if (isOwned)
    return false;
  isOwned = true;
  void *p = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return false;
  madvise(p, kRegion, MADV_HUGEPAGE);
  region = regionNext = static_cast<char *>(p);
  regionEnd = region + kRegion;
  return isOwner = true;
}

void *fromBlock(size_t grains) {
  if (fresh[grains] + grains * kGrain > freshEnd[grains]) {
    if (regionNext == regionEnd)
      return nullptr;
    sizeOf[(regionNext - region) / kBlock] = static_cast<uint8_t>(grains);
    fresh[grains] = regionNext;
    freshEnd[grains] = regionNext += kBlock;
  }
  void *p = fresh[grains];
  fresh[grains] += grains * kGrain;
  return p;
}

void *allocate(size_t n) {
  if (n <= kLargest && (isOwner || reserve())) {
    size_t grains = (n + kGrain - 1) / kGrain + (n == 0);
    if (Free *p = freed[grains]) {
      freed[grains] = p->next;
      return p;
    }
    if (void *p = fromBlock(grains))
      return p;
  }
  return std::malloc(n ? n : 1);
}

void release(void *p) {
  auto at = static_cast<size_t>(static_cast<char *>(p) - region);
  if (!region || at >= kRegion)
    return std::free(p);
  if (!isOwner) // a few bytes of another thread's end
    return;
  auto *f = static_cast<Free *>(p);
  size_t grains = sizeOf[at / kBlock];
  f->next = freed[grains];
  freed[grains] = f;
}

} // namespace

void *operator new(size_t n) {
  if (void *p = allocate(n))
    return p;
  throw std::bad_alloc();
}
void *operator new[](size_t n) { return operator new(n); }
void *operator new(size_t n, const std::nothrow_t &) noexcept { return allocate(n); }
void *operator new[](size_t n, const std::nothrow_t &) noexcept { return allocate(n); }
void operator delete(void *p) noexcept { release(p); }
void operator delete[](void *p) noexcept { release(p); }
void operator delete(void *p, size_t) noexcept { release(p); }
void operator delete[](void *p, size_t) noexcept { release(p); }
void operator delete(void *p, const std::nothrow_t &) noexcept { release(p); }
void operator delete[](void *p, const std::nothrow_t &) noexcept { release(p); }

#endif
