// SPDX-License-Identifier: Apache-2.0
//
// The emulated CUDA runtime: memory that is checked, streams that are threads, events that are occurrences. An error in a kernel
// or in an enqueued copy sticks: every later call returns it, as CUDA does.
#include "test/emulation/Machine.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace ds::emulated {

int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

namespace {

/// All that the process shares.
struct Machine {
  std::mutex mutex;
  std::map<char *, size_t> allocations; // device and pinned memory
  std::set<char *> onDevice;
  size_t used = 0;
  size_t memory = static_cast<size_t>(fromEnvironment("DS_EMULATED_MEMORY", int64_t{8} << 30));
  std::set<const void *> handles; // streams and events
  std::string sticky;             // the error of a launch
  int64_t objects = 0;            // of libraries
  int64_t calls = 0;
  std::string failName;
  int64_t failIn = 0;
  Machine() {
    if (const char *name = std::getenv("DS_EMULATED_FAIL")) { // "cudaMemcpyAsync 3"
      failName = name;
      size_t space = failName.find(' ');
      failIn = space == std::string::npos ? 1 : std::strtoll(name + space + 1, nullptr, 10);
      failName.resize(std::min(space, failName.size()));
    }
  }
};
Machine &machine() {
  static auto *m = new Machine; // outlives the threads of streams
  return *m;
}

} // namespace

cudaError_t enter(const char *name) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  ++m.calls;
  if (m.failIn > 0 && (m.failName.empty() || m.failName == name) && --m.failIn == 0)
    return cudaErrorUnknown;
  return m.sticky.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

bool exists(const void *handle) {
  std::lock_guard lock(machine().mutex);
  return machine().handles.count(handle) != 0;
}

bool isInside(const void *p, size_t bytes) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  auto *at = static_cast<char *>(const_cast<void *>(p));
  auto it = m.allocations.upper_bound(at);
  if (it == m.allocations.begin())
    return true; // host memory
  --it;
  return at >= it->first + it->second || at + bytes <= it->first + it->second;
}

namespace {

cudaError_t allocate(void **p, size_t bytes, bool device) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  if (device && m.used + bytes > m.memory)
    return cudaErrorMemoryAllocation;
  auto *block = static_cast<char *>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (!block)
    return cudaErrorMemoryAllocation;
  std::memset(block, 0xff, bytes); // NaN in every float type
  m.allocations[block] = bytes;
  if (device) {
    m.onDevice.insert(block);
    m.used += bytes;
  }
  *p = block;
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
  if (m.onDevice.erase(it->first))
    m.used -= it->second;
  std::free(it->first);
  m.allocations.erase(it);
  return cudaSuccess;
}

/// One record of an event.
struct Occurrence {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  void set() {
    std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
};

} // namespace

} // namespace ds::emulated

using namespace ds::emulated;

struct CudaEvent {
  std::mutex mutex;
  std::shared_ptr<Occurrence> last;
};

struct CudaStream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<std::string()>> queue;
  bool stop = false, busy = false;
  std::thread thread{[this] { run(); }};

  void add(std::function<std::string()> work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
  ~CudaStream() {
    {
      std::lock_guard lock(mutex);
      stop = true;
      changed.notify_all();
    }
    thread.join();
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty())
        return;
      auto work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      if (std::string error = work(); !error.empty()) {
        std::lock_guard all(machine().mutex);
        if (machine().sticky.empty())
          machine().sticky = error;
      }
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

namespace ds::emulated {

static bool hasFailed() {
  std::lock_guard lock(machine().mutex);
  return !machine().sticky.empty();
}

cudaError_t enqueue(cudaStream_t s, dim3 grid, dim3 dim, size_t shared,
                    std::function<void()> kernel) {
  if (cudaError_t e = enter("cudaLaunchKernel"))
    return e;
  uint64_t threads = uint64_t{dim.x} * dim.y * dim.z;
  bool tooMany = grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 ||
                 grid.z == 0 || grid.z > 65535 || threads == 0 || threads > 1024 ||
                 shared > 48 << 10;
  if (!exists(s) || tooMany)
    return cudaErrorInvalidValue;
  s->add([=, kernel = std::move(kernel)] {
    return hasFailed() ? std::string() : runGrid(grid, dim, shared, kernel);
  });
  return cudaSuccess;
}

void addWork(cudaStream_t s, std::function<std::string()> work) {
  s->add([work = std::move(work)] { return hasFailed() ? std::string() : work(); });
}
void countObject(int by) {
  std::lock_guard lock(machine().mutex);
  machine().objects += by;
}
bool hasLibrary(const std::string &name) {
  const char *missing = std::getenv("DS_EMULATED_MISSING");
  return (',' + std::string(missing ? missing : "") + ',').find(',' + name + ',') ==
         std::string::npos;
}

void failCall(const std::string &name, int64_t n) {
  std::lock_guard lock(machine().mutex);
  machine().failName = name;
  machine().failIn = n;
  machine().sticky.clear();
}
int64_t calls() {
  std::lock_guard lock(machine().mutex);
  return machine().calls;
}
int64_t liveAllocations() {
  std::lock_guard lock(machine().mutex);
  return static_cast<int64_t>(machine().allocations.size()) + machine().objects;
}

} // namespace ds::emulated

// -- CUDA's functions -------------------------------------------------------------------------------

const char *cudaGetErrorName(cudaError_t e) {
  switch (e) {
#define NAME(x)                                                                                    \
  case x:                                                                                          \
    return #x;
    NAME(cudaSuccess)
    NAME(cudaErrorInvalidValue)
    NAME(cudaErrorMemoryAllocation)
    NAME(cudaErrorInsufficientDriver)
    NAME(cudaErrorNoDevice)
    NAME(cudaErrorInvalidDevice)
    NAME(cudaErrorNoKernelImageForDevice)
    NAME(cudaErrorInvalidResourceHandle)
    NAME(cudaErrorPeerAccessAlreadyEnabled)
    NAME(cudaErrorLaunchFailure)
    NAME(cudaErrorUnknown)
#undef NAME
  }
  return "?";
}
const char *cudaGetErrorString(cudaError_t e) {
  static thread_local std::string text;
  if (e == cudaErrorLaunchFailure) {
    std::lock_guard lock(machine().mutex);
    text = machine().sticky;
    return text.c_str();
  }
  return e == cudaErrorMemoryAllocation ? "out of memory" : "emulated failure";
}
cudaError_t cudaGetLastError() { return enter("cudaGetLastError"); }

cudaError_t cudaGetDeviceCount(int *count) {
  *count = static_cast<int>(fromEnvironment("DS_EMULATED_DEVICES", 8));
  if (fromEnvironment("DS_EMULATED_DRIVER", 13000) < 13000)
    return cudaErrorInsufficientDriver;
  return enter("cudaGetDeviceCount");
}
static thread_local int currentDevice = 0;
cudaError_t cudaSetDevice(int device) {
  currentDevice = device;
  return enter("cudaSetDevice");
}
cudaError_t cudaGetDevice(int *device) {
  *device = currentDevice;
  return enter("cudaGetDevice");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
  *p = {};
  std::strcpy(p->name, "emulated on the CPU");
  p->major = 8;
  p->totalGlobalMem = machine().memory;
  return enter("cudaGetDeviceProperties");
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  if (cudaError_t e = enter("cudaMemGetInfo"))
    return e;
  std::lock_guard lock(machine().mutex);
  *total = machine().memory;
  *available = machine().memory - machine().used;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = static_cast<int>(fromEnvironment("DS_EMULATED_DRIVER", 13000));
  return enter("cudaDriverGetVersion");
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return enter("cudaRuntimeGetVersion");
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = fromEnvironment("DS_EMULATED_PEERS", 1) != 0;
  return enter("cudaDeviceCanAccessPeer");
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return enter("cudaDeviceEnablePeerAccess");
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
  cudaError_t e = enter("cudaMalloc");
  return e ? e : allocate(p, bytes, true);
}
cudaError_t cudaMallocHost(void **p, size_t bytes) {
  cudaError_t e = enter("cudaMallocHost");
  return e ? e : allocate(p, bytes, false);
}
// Memory goes back also after an error.
cudaError_t cudaFree(void *p) {
  cudaError_t e = enter("cudaFree"), freed = release(p);
  return e ? e : freed;
}
cudaError_t cudaFreeHost(void *p) {
  cudaError_t e = enter("cudaFreeHost"), freed = release(p);
  return e ? e : freed;
}

template <typename T> static cudaError_t create(const char *name, T **handle) {
  if (cudaError_t e = enter(name))
    return e;
  *handle = new T;
  std::lock_guard lock(machine().mutex);
  machine().handles.insert(*handle);
  return cudaSuccess;
}
template <typename T> static cudaError_t destroy(const char *name, T *handle) {
  cudaError_t e = enter(name);
  {
    std::lock_guard lock(machine().mutex);
    if (!machine().handles.erase(handle))
      return cudaErrorInvalidResourceHandle;
  }
  delete handle;
  return e;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
  return create("cudaStreamCreateWithFlags", s);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return destroy("cudaStreamDestroy", s); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
  return create("cudaEventCreateWithFlags", e);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return destroy("cudaEventDestroy", e); }

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (cudaError_t e = enter("cudaStreamSynchronize"))
    return e;
  if (!exists(s))
    return cudaErrorInvalidResourceHandle;
  s->drain();
  return hasFailed() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (cudaError_t error = enter("cudaEventRecord"))
    return error;
  if (!exists(e) || !exists(s))
    return cudaErrorInvalidResourceHandle;
  auto now = std::make_shared<Occurrence>();
  {
    std::lock_guard lock(e->mutex);
    e->last = now;
  }
  s->add([now] {
    now->set();
    return std::string();
  });
  return cudaSuccess;
}
static std::shared_ptr<Occurrence> lastOf(cudaEvent_t e) {
  std::lock_guard lock(e->mutex);
  return e->last;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (cudaError_t error = enter("cudaStreamWaitEvent"))
    return error;
  if (!exists(e) || !exists(s))
    return cudaErrorInvalidResourceHandle;
  if (auto last = lastOf(e))
    s->add([last] {
      last->wait();
      return std::string();
    });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (cudaError_t error = enter("cudaEventSynchronize"))
    return error;
  if (!exists(e))
    return cudaErrorInvalidResourceHandle;
  if (auto last = lastOf(e))
    last->wait();
  return hasFailed() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind,
                            cudaStream_t s) {
  if (cudaError_t e = enter("cudaMemcpyAsync"))
    return e;
  if (!exists(s) || !isInside(dst, bytes) || !isInside(src, bytes))
    return cudaErrorInvalidValue;
  s->add([=] {
    if (!hasFailed())
      std::memmove(dst, src, bytes);
    return std::string();
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t s) {
  if (cudaError_t e = enter("cudaMemsetAsync"))
    return e;
  if (!exists(s) || !isInside(dst, bytes))
    return cudaErrorInvalidValue;
  s->add([=] {
    if (!hasFailed())
      std::memset(dst, byte, bytes);
    return std::string();
  });
  return cudaSuccess;
}
