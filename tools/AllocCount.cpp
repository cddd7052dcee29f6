// SPDX-License-Identifier: Apache-2.0
#include "tools/AllocCount.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <execinfo.h>
#include <link.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0
#else
#define COUNTS 1
#endif

static std::atomic<bool> counting = false;
static std::atomic<int64_t> allocations = 0, oneDnnAllocations = 0, frees = 0;

#if COUNTS
static uintptr_t oneDnnBegin = 0, oneDnnEnd = 0;

static void findOneDnn() {
  dl_iterate_phdr(
      [](dl_phdr_info *lib, size_t, void *) {
        if (!std::strstr(lib->dlpi_name, "libdnnl"))
          return 0;
        oneDnnBegin = lib->dlpi_addr;
        for (int i = 0; i < lib->dlpi_phnum; ++i)
          oneDnnEnd = std::max<uintptr_t>(oneDnnEnd, lib->dlpi_addr + lib->dlpi_phdr[i].p_vaddr +
                                                         lib->dlpi_phdr[i].p_memsz);
        return 1;
      },
      nullptr);
  void *frame;
  backtrace(&frame, 1); // its first call allocates
}

// Whether malloc was called by oneDNN: directly, or through operator new.
static bool fromOneDnn() {
  void *frames[5];
  int n = backtrace(frames, 5);
  return std::any_of(frames, frames + n, [](void *p) {
    auto at = reinterpret_cast<uintptr_t>(p);
    return oneDnnBegin <= at && at < oneDnnEnd;
  });
}

static void count() {
  if (counting.load(std::memory_order_relaxed))
    (oneDnnEnd > 0 && fromOneDnn() ? oneDnnAllocations : allocations)
        .fetch_add(1, std::memory_order_relaxed);
}

extern "C" {
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

void *malloc(size_t n) {
  count();
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  count();
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  count();
  return __libc_realloc(p, n);
}
void *memalign(size_t align, size_t n) {
  count();
  return __libc_memalign(align, n);
}
void *aligned_alloc(size_t align, size_t n) {
  count();
  return __libc_memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
  count();
  void *p = __libc_memalign(align, n);
  if (!p)
    return ENOMEM;
  *out = p;
  return 0;
}
void free(void *p) {
  if (p && counting.load(std::memory_order_relaxed))
    frees.fetch_add(1, std::memory_order_relaxed);
  __libc_free(p);
}
}
#endif

namespace ds {

bool canCountAllocations() { return COUNTS; }

void startCounting() {
#if COUNTS
  findOneDnn();
#endif
  allocations = oneDnnAllocations = frees = 0;
  counting = true;
}

AllocCounts stopCounting() {
  counting = false;
  return {allocations, oneDnnAllocations, frees};
}

} // namespace ds
