// SPDX-License-Identifier: Apache-2.0
//
// Stepping allocates nothing, counted from outside: this file replaces malloc and its relatives for the whole
// test program, and counts calls of all threads while asked to. Sanitizers bring their own malloc.
// oneDNN keeps the arguments of each dnnl_primitive_execute in a hash map of its own, six nodes for a matmul, and
// offers no way around it: calls that come from its library are counted apart, and must all be freed again.
#include "runtime/Trainer.h"

#include "test/unit/Gpt2.h"
#include "test/unit/RuntimeModel.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <execinfo.h>
#include <gtest/gtest.h>
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

#ifdef DS_HAVE_CPU_DEVICE
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
#endif

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

using namespace ds;
using namespace ds::test;

TEST(RuntimeAlloc, TheCounterCounts) {
  if (!COUNTS)
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  allocations = 0;
  counting = true;
  auto *volatile p = new std::vector<int>(100);
  delete p;
  counting = false;
  EXPECT_EQ(allocations, 2);
}

TEST(RuntimeAlloc, SteppingAllocatesNothing) {
  if (!COUNTS)
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  RunOptions o;
  o.data = "synthetic:3";
  o.traceEvents = 1000;
  auto t = Trainer::create(makeMlp(4, 3, 3), refDevice(), o);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
  allocations = 0;
  counting = true;
  bool ok = true;
  for (int i = 0; i < 50; ++i)
    ok &= (*t)->step().ok();
  counting = false;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocations, 0);
}

#ifdef DS_HAVE_CPU_DEVICE
// The same through the planner and the cpu device: the small GPT-2 on four ranks under stage 3.
TEST(RuntimeAlloc, SteppingGpt2AllocatesNothing) {
  if (!COUNTS)
    GTEST_SKIP() << "malloc belongs to the sanitizer";
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.sequence = 16;
  run.tokens = "data/train.bin";
  run.config.optimizer.type = "adamw";
  run.config.loss.kind = LossConfig::Kind::CrossEntropy;
  run.config.loss.logits = "logits";
  run.config.stage = 3, run.config.world = 4, run.config.gradAccum = 2;
  run.config.microBatch = 2, run.config.trainBatch = 16;
  run.config.persistenceThreshold = 512;
  auto t = startGpt2(run);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
#if COUNTS
  findOneDnn();
#endif
  allocations = oneDnnAllocations = frees = 0;
  counting = true;
  bool ok = true;
  for (int i = 0; i < 10; ++i)
    ok &= (*t)->step().ok();
  counting = false;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(frees, oneDnnAllocations);
  RecordProperty("allocations_inside_onednn", std::to_string(oneDnnAllocations));
}
#endif
