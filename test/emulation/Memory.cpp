// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Memory.h"

namespace ds::emulated {

// Bytes before and behind an allocation that belong to nobody.
static constexpr size_t kBeside = 4096;

int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

Machine::Machine() {
  if (const char *name = std::getenv("DS_EMULATED_FAIL")) { // "cudaMemcpyAsync 3"
    failName = name;
    size_t space = failName.find(' ');
    failIn = space == std::string::npos ? 1 : std::strtoll(name + space + 1, nullptr, 10);
    failName.resize(std::min(space, failName.size()));
  }
}
Machine &machine() {
  static auto *m = new Machine; // outlives the threads of streams
  return *m;
}

thread_local int currentDevice = 0;
thread_local cudaError_t lastError = cudaSuccess;

cudaError_t failed(cudaError_t e) {
  lastError = e;
  return e;
}

cudaError_t enter(const char *name) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  ++m.calls[name];
  if (m.failIn > 0 && (m.failName.empty() || m.failName == name) && --m.failIn == 0)
    return std::string_view(name).starts_with("cuda") ? failed(cudaErrorUnknown) : cudaErrorUnknown;
  return m.sticky.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

bool exists(const void *handle) {
  std::lock_guard lock(machine().mutex);
  return machine().handles.count(handle) != 0;
}

// With the mutex held. The allocation that p lies in, or `beside` bytes from; null if there is none.
static Allocation *find(const void *p, char **begin = nullptr, size_t beside = 0) {
  Machine &m = machine();
  auto *at = static_cast<char *>(const_cast<void *>(p));
  auto it = m.allocations.upper_bound(at + beside);
  if (it == m.allocations.begin())
    return nullptr;
  --it;
  if (begin)
    *begin = it->first;
  return at < it->first + it->second.bytes + beside ? &it->second : nullptr;
}

bool isInside(const void *p, size_t bytes) {
  std::lock_guard lock(machine().mutex);
  char *begin = nullptr;
  Allocation *a = find(p, &begin);
  return !a || static_cast<const char *>(p) + bytes <= begin + a->bytes;
}

void addRange(std::vector<Range> &ranges, const void *p, size_t bytes, bool writes) {
  if (auto *at = static_cast<const char *>(p); isAllocated(p))
    ranges.push_back({at, at + bytes, writes});
}

cudaError_t allocate(void **p, size_t bytes, bool device) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  if (device && m.used + bytes > m.memory)
    return failed(cudaErrorMemoryAllocation);
  size_t room = (bytes + 4095) / 4096 * 4096 + 2 * kBeside;
  auto *block = static_cast<char *>(std::aligned_alloc(4096, room));
  if (!block)
    return cudaErrorMemoryAllocation;
  std::memset(block, 0xff, bytes + 2 * kBeside); // NaN in every float type
  Allocation &a = m.allocations[block + kBeside];
  a.bytes = bytes;
  a.onDevice = device;
  if (device) {
    m.used += bytes;
    if (checksOn && tracesAccesses())
      a.known.reset(static_cast<uint8_t *>(std::calloc(bytes + 1, 1)));
  }
  *p = block + kBeside;
  return cudaSuccess;
}

cudaError_t release(void *p) {
  if (!p)
    return cudaSuccess;
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  auto it = m.allocations.find(static_cast<char *>(p));
  if (it == m.allocations.end())
    return cudaErrorInvalidValue;
  if (it->second.onDevice)
    m.used -= it->second.bytes;
  forgetAccesses(p, it->second.bytes);
  std::free(it->first - kBeside);
  m.allocations.erase(it);
  return cudaSuccess;
}

bool breakWith(const std::string &error) {
  std::lock_guard lock(machine().mutex);
  if (machine().sticky.empty())
    machine().sticky = error;
  return error.empty();
}

bool hasFailed() {
  std::lock_guard lock(machine().mutex);
  return !machine().sticky.empty();
}

// Of device memory. Nobody frees what a kernel uses.
uint8_t *knownAt(const void *p, size_t bytes) {
  std::lock_guard lock(machine().mutex);
  char *begin = nullptr;
  Allocation *a = find(p, &begin);
  auto *at = static_cast<const char *>(p);
  bool isKept = a && a->known && at + bytes <= begin + a->bytes;
  return isKept ? a->known.get() + (at - begin) : nullptr;
}
bool isAllocated(const void *p) {
  std::lock_guard lock(machine().mutex);
  return find(p, nullptr, kBeside) != nullptr;
}
void setKnown(void *dst, size_t bytes) {
  if (uint8_t *to = knownAt(dst, bytes))
    std::memset(to, 1, bytes);
}
void copyKnown(void *dst, const void *src, size_t bytes) {
  uint8_t *to = knownAt(dst, bytes), *from = knownAt(src, bytes);
  if (to && from)
    std::memmove(to, from, bytes);
  else
    setKnown(dst, bytes);
}

void countObject(int by) {
  std::lock_guard lock(machine().mutex);
  machine().objects += by;
}

void failCall(const std::string &name, int64_t n) {
  std::lock_guard lock(machine().mutex);
  machine().failName = name;
  machine().failIn = n;
  machine().sticky.clear();
}
int64_t calls(const std::string &name) {
  std::lock_guard lock(machine().mutex);
  int64_t all = 0;
  for (const auto &[called, times] : machine().calls)
    all += name.empty() || called == name ? times : 0;
  return all;
}
int64_t liveAllocations() {
  std::lock_guard lock(machine().mutex);
  return static_cast<int64_t>(machine().allocations.size()) + machine().objects;
}
std::string brokenBy() {
  std::lock_guard lock(machine().mutex);
  return machine().sticky;
}
int64_t graphLaunches() { return machine().graphs; }

} // namespace ds::emulated
