// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Grid.h"

#include "test/emulation/Fiber.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace ds::emulated {

thread_local Thread current;

namespace {

struct Settings {
  Order order = Order::Forward;
  uint64_t seed = 0;
  Settings() {
    const char *text = std::getenv("DS_EMULATED_ORDER");
    if (!text)
      return;
    if (std::strcmp(text, "reverse") == 0)
      order = Order::Reverse;
    else
      order = Order::Random, seed = std::strtoull(text, nullptr, 10);
  }
};
Settings &settings() {
  static Settings s;
  return s;
}

constexpr int kWarp = 32;

std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}
uint3 unflatten(uint64_t i, dim3 d) {
  return {static_cast<unsigned>(i % d.x), static_cast<unsigned>(i / d.x % d.y),
          static_cast<unsigned>(i / d.x / d.y)};
}

/// When something happened: barriers of the block before it, and of the thread's warp.
struct Moment {
  uint32_t thread = UINT32_MAX;
  uint32_t block = 0, warp = 0;
};

/// The last accesses of an element of shared memory.
struct Shadow {
  Moment write;
  std::vector<Moment>
      reads; // since then, and since the last barrier of the block; the latest of each thread
  uint64_t run = 0; // of a block: what an earlier one did is forgotten
};

/// An array that a kernel declares.
struct Shared {
  std::vector<std::byte> bytes;
  std::vector<Shadow> shadows; // of its elements
  bool has(const void *p) const { return p >= bytes.data() && p < bytes.data() + bytes.size(); }
};

struct ThreadState {
  enum { New, Ready, AtBlock, AtWarp, Done } what = New;
  Fiber *fiber = nullptr;
  const char *file = "";
  int line = 0;
  uint32_t mask = 0;
  uint64_t value = 0;     // given to the others of the warp
  uint32_t barriers = 0;  // of the warp that this thread has passed
  uint32_t gathers = 0;   // that this thread has taken part in
  bool gathering = false; // waits, and orders no accesses by that
};

constexpr size_t kGathered = 24;
/// What the lanes of a warp give each other, and where. There are two: none writes what another one still reads.
struct Gathered {
  std::byte bytes[kWarp * kGathered];
  uint32_t number[kWarp]; // of the lane's gathers so far
  int line[kWarp];
};

/// Stacks of an OS thread; kept, since the system takes longer to make one than many threads run.
struct FiberPool {
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber *> idle;
};

class Block {
public:
  Block(dim3 grid, dim3 dim, size_t dynamicBytes, const std::function<void()> &kernel)
      : kernel(kernel), count(dim.x * dim.y * dim.z), dynamic(dynamicBytes) {
    current.gridDim = grid;
    current.blockDim = dim;
  }

  std::string run(uint3 index, std::mt19937_64 &random);

  // Called by the running thread.
  void wait(int what, uint32_t mask, const char *file, int line);
  ThreadState &self() { return threads[running]; }
  uint32_t selfIndex() const { return running; }
  ThreadState *lane(int l) {
    uint32_t t = running / kWarp * kWarp + static_cast<uint32_t>(l);
    return t < count ? &threads[t] : nullptr;
  }
  void *shared(size_t bytes, const char *file, int line);
  void *dynamicBytes() { return dynamic.data(); }
  const std::byte *gather(const void *mine, size_t bytes, const char *file, int line);
  void access(const void *p, bool write, const char *name, size_t i, size_t size, const char *file,
              int line);
  [[noreturn]] void stop(const std::string &message);
  static void fiberMain();

private:
  void runThreads();
  bool pickNext();
  bool release();
  bool ordered(const Moment &m) const;
  void setCurrent() { current.threadIdx = unflatten(running, current.blockDim); }
  std::string stuck() const;

  const std::function<void()> &kernel;
  uint32_t count;
  std::vector<ThreadState> threads;
  std::vector<uint32_t> order;
  size_t next = 0; // in order
  uint32_t running = 0;
  uint32_t epoch = 0; // barriers of the block so far
  std::string error;
  const char *barrierFile = nullptr; // where the block's threads wait
  int barrierLine = 0;
  Fiber scheduler;
  std::map<std::pair<const char *, int>, Shared> declared;
  Shared *latest = nullptr; // that was accessed
  uint64_t runs = 0;
  std::vector<std::byte> dynamic;
  std::vector<std::array<Gathered, 2>> gathered; // by warp
};

thread_local Block *block = nullptr;
thread_local FiberPool pool;

// A fiber runs one thread after another as long as none of them waits, then others of later blocks and launches.
void Block::fiberMain() {
  block->threads[block->running].fiber->begin();
  while (true)
    block->runThreads();
}
void Block::runThreads() {
  while (true) {
    kernel();
    threads[running].what = ThreadState::Done;
    Fiber *own = threads[running].fiber;
    if (error.empty() && pickNext()) {
      if (threads[running].what == ThreadState::New) {
        threads[running].what = ThreadState::Ready;
        threads[running].fiber = own;
        setCurrent();
        continue;
      }
      --next; // it has a fiber of its own
    }
    pool.idle.push_back(own);
    own->switchTo(scheduler);
    return; // with another thread, maybe of another block
  }
}

// The next thread in order that can go on.
bool Block::pickNext() {
  for (; next < order.size(); ++next) {
    auto what = threads[order[next]].what;
    if (what == ThreadState::New || what == ThreadState::Ready) {
      running = order[next++];
      return true;
    }
  }
  return false;
}

// Lets those go on whose barrier is complete. Threads that have ended count as arrived.
bool Block::release() {
  bool any = false, all = true;
  for (const ThreadState &t : threads)
    all &= t.what == ThreadState::AtBlock || t.what == ThreadState::Done;
  if (all)
    for (ThreadState &t : threads)
      if (t.what == ThreadState::AtBlock) {
        t.what = ThreadState::Ready;
        any = true;
      }
  if (any) {
    ++epoch;
    barrierFile = nullptr;
  }
  for (uint32_t first = 0; first < count && !all; first += kWarp) {
    uint32_t lanes = std::min<uint32_t>(kWarp, count - first);
    for (uint32_t l = 0; l < lanes; ++l) {
      ThreadState &t = threads[first + l];
      if (t.what != ThreadState::AtWarp)
        continue;
      bool complete = true;
      for (uint32_t k = 0; k < lanes; ++k)
        if (t.mask >> k & 1) {
          const ThreadState &o = threads[first + k];
          complete &=
              o.what == ThreadState::Done || (o.what == ThreadState::AtWarp && o.mask == t.mask);
        }
      if (!complete)
        continue;
      uint32_t mask = t.mask;
      for (uint32_t k = 0; k < lanes; ++k)
        if (ThreadState &o = threads[first + k]; (mask >> k & 1) && o.what == ThreadState::AtWarp) {
          o.what = ThreadState::Ready;
          o.barriers += !o.gathering;
          any = true;
        }
    }
  }
  return any;
}

std::string Block::stuck() const {
  const ThreadState *a = nullptr, *b = nullptr;
  for (const ThreadState &t : threads) {
    if (t.what == ThreadState::Done)
      continue;
    if (!a)
      a = &t;
    else if (!b && (t.what != a->what || t.line != a->line))
      b = &t;
  }
  auto where = [&](const ThreadState &t) {
    return "thread " +
           text(unflatten(static_cast<uint64_t>(&t - threads.data()), current.blockDim)) +
           " waits at " + t.file + ":" + std::to_string(t.line);
  };
  return "block " + text(current.blockIdx) + " is stuck: " + (a ? where(*a) : "") +
         (b ? ", " + where(*b) : "");
}

std::string Block::run(uint3 index, std::mt19937_64 &random) {
  current.blockIdx = index;
  threads.assign(count, {});
  order.resize(count);
  for (uint32_t t = 0; t < count; ++t)
    order[t] = t;
  if (settings().order == Order::Reverse)
    std::reverse(order.begin(), order.end());
  epoch = 0;
  gathered.clear();
  barrierFile = nullptr;
  ++runs;
  for (auto &[where, array] : declared)
    std::fill(array.bytes.begin(), array.bytes.end(), std::byte{0xff});
  std::fill(dynamic.begin(), dynamic.end(), std::byte{0xff});
  while (error.empty()) {
    if (settings().order == Order::Random)
      std::shuffle(order.begin(), order.end(), random);
    next = 0;
    while (error.empty() && pickNext()) {
      ThreadState &t = threads[running];
      if (t.what == ThreadState::New) {
        if (pool.idle.empty()) {
          pool.all.push_back(std::make_unique<Fiber>(&Block::fiberMain));
          pool.idle.push_back(pool.all.back().get());
        }
        t.fiber = pool.idle.back();
        pool.idle.pop_back();
        t.what = ThreadState::Ready;
      }
      setCurrent();
      scheduler.switchTo(*t.fiber);
    }
    bool ended = std::all_of(threads.begin(), threads.end(),
                             [](const ThreadState &t) { return t.what == ThreadState::Done; });
    if (ended || !error.empty())
      break;
    if (!release())
      error = stuck();
  }
  return error;
}

void Block::wait(int what, uint32_t mask, const char *file, int line) {
  ThreadState &t = self();
  if (what == ThreadState::AtBlock) {
    if (!barrierFile)
      barrierFile = file, barrierLine = line;
    if (barrierLine != line || std::strcmp(barrierFile, file) != 0)
      stop("threads of block " + text(current.blockIdx) + " wait at different barriers, " +
           barrierFile + ":" + std::to_string(barrierLine) + " and " + file + ":" +
           std::to_string(line));
  }
  t.what = static_cast<decltype(t.what)>(what);
  t.mask = mask;
  t.file = file;
  t.line = line;
  t.fiber->switchTo(scheduler);
}

void *Block::shared(size_t bytes, const char *file, int line) {
  auto [it, isNew] = declared.try_emplace({file, line});
  if (isNew)
    it->second.bytes.assign(bytes, std::byte{0xff});
  return it->second.bytes.data();
}

const std::byte *Block::gather(const void *mine, size_t bytes, const char *file, int line) {
  gathered.resize(count / kWarp + 1);
  ThreadState &t = self();
  Gathered &all = gathered[running / kWarp][t.gathers++ % 2];
  uint32_t own = running % kWarp, number = t.gathers;
  std::memcpy(all.bytes + own * bytes, mine, bytes);
  all.number[own] = number;
  all.line[own] = line;
  t.gathering = true;
  wait(ThreadState::AtWarp, UINT32_MAX, file, line);
  t.gathering = false;
  for (int l = 0; l < kWarp; ++l)
    if (!lane(l) || all.number[l] != number || all.line[l] != line)
      stop(std::string(file) + ":" + std::to_string(line) + ": lane " + std::to_string(l) +
           " of the warp is not there");
  return all.bytes;
}

// Behind a barrier that both passed, or by the same thread.
bool Block::ordered(const Moment &m) const {
  if (m.thread == UINT32_MAX || m.thread == running || m.block < epoch)
    return true;
  return m.thread / kWarp == running / kWarp && m.warp < threads[running].barriers;
}

void Block::access(const void *p, bool write, const char *name, size_t i, size_t size,
                   const char *file, int line) {
  if (!latest || !latest->has(p))
    for (auto &[where, array] : declared)
      if (array.has(p))
        latest = &array;
  latest->shadows.resize(latest->bytes.size() / size);
  Shadow &s = latest->shadows[i];
  const bool isNew = s.run != runs;
  if (isNew)
    s.run = runs, s.write = {};
  if (isNew || (!s.reads.empty() && s.reads.back().block < epoch))
    s.reads.clear();
  const Moment *conflict = ordered(s.write) ? nullptr : &s.write;
  for (const Moment &m : s.reads)
    if (write && !conflict && !ordered(m))
      conflict = &m;
  if (conflict)
    stop(std::string(file) + ":" + std::to_string(line) + ": threads " +
         text(unflatten(conflict->thread, current.blockDim)) + " and " + text(current.threadIdx) +
         " of block " + text(current.blockIdx) + " access element " + std::to_string(i) + " of " +
         name + ", at least one writes, and no barrier is between them");
  Moment now{running, epoch, threads[running].barriers};
  if (write) {
    s.write = now;
    s.reads.clear();
    return;
  }
  for (Moment &m : s.reads)
    if (m.thread == running) {
      m = now;
      return;
    }
  s.reads.push_back(now);
}

// The other threads of the block are left where they stand, and their stacks with them.
void Block::stop(const std::string &message) {
  error = message;
  self().fiber->switchTo(scheduler);
  std::abort(); // nobody comes back
}

} // namespace

void setOrder(Order order, uint64_t seed) {
  settings().order = order;
  settings().seed = seed;
}

std::string runGrid(dim3 grid, dim3 dim, size_t sharedBytes, const std::function<void()> &kernel) {
  uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  Block state(grid, dim, sharedBytes, kernel);
  block = &state;
  std::mt19937_64 random(settings().seed);
  std::vector<uint64_t> order(blocks);
  for (uint64_t b = 0; b < blocks; ++b)
    order[b] = b;
  if (settings().order == Order::Reverse)
    std::reverse(order.begin(), order.end());
  if (settings().order == Order::Random)
    std::shuffle(order.begin(), order.end(), random);
  std::string error;
  for (uint64_t b : order)
    if (error = state.run(unflatten(b, grid), random); !error.empty())
      break;
  block = nullptr;
  return error;
}

bool checksOn = !std::getenv("DS_EMULATED_CHECKS") || *std::getenv("DS_EMULATED_CHECKS") != '0';
void setChecks(bool on) { checksOn = on; }

// Sites are few: a mutex and a map cost little beside the switch of fibers.
static std::mutex sitesMutex;
static std::map<std::pair<const char *, int>, bool> sites; // skipped?
static std::string skipped;

static std::string siteName(const char *file, int line) {
  return std::string(file) + ":" + std::to_string(line);
}
static bool isSkipped(const char *file, int line) {
  std::lock_guard lock(sitesMutex);
  auto [it, isNew] = sites.try_emplace({file, line}, false);
  if (isNew)
    it->second = siteName(file, line) == skipped;
  return it->second;
}
std::vector<std::string> barriersSeen() {
  std::lock_guard lock(sitesMutex);
  std::vector<std::string> names;
  for (auto &[at, skip] : sites)
    if (std::string name = siteName(at.first, at.second);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}
void forgetBarriers() {
  std::lock_guard lock(sitesMutex);
  sites.clear();
}
void skipBarrier(const std::string &site) {
  std::lock_guard lock(sitesMutex);
  skipped = site;
  for (auto &[at, skip] : sites)
    skip = siteName(at.first, at.second) == site;
}

void syncBlock(const char *file, int line) {
  if (!isSkipped(file, line))
    block->wait(ThreadState::AtBlock, 0, file, line);
}
void syncWarp(uint32_t mask, const char *file, int line) {
  if (!isSkipped(file, line))
    block->wait(ThreadState::AtWarp, mask, file, line);
}
int laneOf() { return static_cast<int>(block->selfIndex() % kWarp); }

uint64_t exchange(uint32_t mask, uint64_t value, int from, const char *file, int line) {
  block->self().value = value;
  block->wait(ThreadState::AtWarp, mask, file, line);
  const ThreadState *other = block->lane(from);
  uint64_t got = other && (mask >> from & 1) ? other->value : value;
  block->wait(ThreadState::AtWarp, mask, file,
              line); // nobody gives the next value before all have read this one
  return got;
}

uint32_t ballot(uint32_t mask, bool value, const char *file, int line) {
  block->self().value = value;
  block->wait(ThreadState::AtWarp, mask, file, line);
  uint32_t bits = 0;
  for (int l = 0; l < kWarp; ++l)
    if (const ThreadState *t = block->lane(l); t && (mask >> l & 1))
      bits |= static_cast<uint32_t>(t->value != 0) << l;
  block->wait(ThreadState::AtWarp, mask, file, line);
  return bits;
}

const std::byte *gatherWarp(const void *mine, size_t bytes, const char *file, int line) {
  return block->gather(mine, bytes, file, line);
}

void *sharedBytes(size_t bytes, const char *, const char *file, int line) {
  return block->shared(bytes, file, line);
}
void *dynamicShared() { return block->dynamicBytes(); }
void access(const void *p, bool write, const char *name, size_t i, size_t size, const char *file,
            int line) {
  block->access(p, write, name, i, size, file, line);
}
void fail(const std::string &message) { block->stop(message); }

} // namespace ds::emulated
