// SPDX-License-Identifier: Apache-2.0
//
// The emulated CUDA runtime: memory that is checked, streams that are threads, events that are occurrences. An error in a kernel
// or in an enqueued copy sticks: every later call returns it, as CUDA does.
#include "test/emulation/Access.h"
#include "test/emulation/Machine.h"

#include <atomic>
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

constexpr size_t kBeside = 4096; // bytes before and behind an allocation that belong to nobody

struct Allocation {
  size_t bytes = 0;
  bool onDevice = false;
  std::unique_ptr<uint8_t, void (*)(void *)> known{nullptr, std::free}; // see Access.h
};

/// All that the process shares.
struct Machine {
  std::mutex mutex;
  std::map<char *, Allocation> allocations; // device and pinned memory
  size_t used = 0;
  size_t memory = static_cast<size_t>(fromEnvironment("DS_EMULATED_MEMORY", int64_t{8} << 30));
  std::set<const void *> handles;  // streams, events, graphs
  std::atomic<int64_t> graphs = 0; // launched
  std::string sticky;              // the error of a launch
  int64_t objects = 0;             // of libraries
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

namespace {

// With the mutex held. The allocation that p lies in, or `beside` bytes from; null if there is none.
Allocation *find(const void *p, char **begin = nullptr, size_t beside = 0) {
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

} // namespace

bool isInside(const void *p, size_t bytes) {
  std::lock_guard lock(machine().mutex);
  char *begin = nullptr;
  Allocation *a = find(p, &begin);
  return !a || static_cast<const char *>(p) + bytes <= begin + a->bytes;
}

// What is no allocation is the host's own business.
void addRange(std::vector<Range> &ranges, const void *p, size_t bytes, bool writes) {
  if (auto *at = static_cast<const char *>(p); isAllocated(p))
    ranges.push_back({at, at + bytes, writes});
}

namespace {

cudaError_t allocate(void **p, size_t bytes, bool device) {
  Machine &m = machine();
  std::lock_guard lock(m.mutex);
  if (device && m.used + bytes > m.memory)
    return cudaErrorMemoryAllocation;
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

/// One record of an event.
struct Occurrence {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock clock; // what comes before it
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

// Sticks, if it is an error. Whether it is none.
bool breakWith(const std::string &error) {
  std::lock_guard lock(machine().mutex);
  if (machine().sticky.empty())
    machine().sticky = error;
  return error.empty();
}

} // namespace

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
static void setKnown(void *dst, size_t bytes) {
  if (uint8_t *to = knownAt(dst, bytes))
    std::memset(to, 1, bytes);
}
static void copyKnown(void *dst, const void *src, size_t bytes) {
  uint8_t *to = knownAt(dst, bytes), *from = knownAt(src, bytes);
  if (to && from)
    std::memmove(to, from, bytes);
  else
    setKnown(dst, bytes);
}

} // namespace ds::emulated

using namespace ds::emulated;

struct CudaEvent {
  std::mutex mutex;
  std::shared_ptr<Occurrence> last;
};

/// What is enqueued: on a stream, or in a graph, which enqueues it again and again.
struct Operation {
  std::string what;
  std::vector<Range> ranges;
  std::function<std::string()> work;
  std::shared_ptr<Windows> windows = nullptr;
  cudaEvent_t event = nullptr; // records it, and does nothing else
};
struct CudaGraph {
  std::vector<Operation> nodes;
  std::thread::id thread; // that captures it
  bool invalid = false;   // by a call that no capture allows
};
struct CudaGraphExec {
  std::vector<Operation> nodes;
};

struct CudaStream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<std::string()>> queue;
  bool stop = false, busy = false;
  Actor actor;
  std::unique_ptr<CudaGraph> capture; // under way
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
      breakWith(work());
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

namespace ds::emulated {

/// The stream that this thread captures.
static thread_local CudaStream *capturing = nullptr;

// What no thread may call that captures. The capture is lost.
static bool spoils() {
  if (capturing && capturing->capture)
    capturing->capture->invalid = true;
  return capturing != nullptr;
}

static void record(cudaEvent_t e, cudaStream_t s) {
  auto now = std::make_shared<Occurrence>();
  recorded(s->actor, now->clock);
  {
    std::lock_guard lock(e->mutex);
    e->last = now;
  }
  s->add([now] {
    now->set();
    return std::string();
  });
}

static cudaError_t submit(cudaStream_t s, Operation o) {
  if (s->capture) {
    s->capture->nodes.push_back(std::move(o));
    return cudaSuccess;
  }
  if (o.event) {
    record(o.event, s);
    return cudaSuccess;
  }
  if (!breakWith(performed(s->actor, o.what, o.ranges)))
    return cudaErrorLaunchFailure;
  s->add(std::move(o.work));
  return cudaSuccess;
}

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
  Operation o{labelled("launch"), {}, {}};
  if (const Touches *t = Touches::current()) {
    o.ranges = t->ranges();
    o.windows = t->windows();
  }
  o.work = [=, windows = o.windows, kernel = std::move(kernel)] {
    if (hasFailed())
      return std::string();
    traceInto(checksOn ? windows.get() : nullptr);
    std::string error = runGrid(grid, dim, shared, kernel);
    traceInto(nullptr);
    return error;
  };
  return submit(s, std::move(o));
}

void addWork(cudaStream_t s, std::function<std::string()> work) {
  Operation o{labelled("library"), {}, {}};
  if (const Touches *t = Touches::current()) {
    o.ranges = t->ranges();
    o.windows = t->windows();
  }
  o.work = [work = std::move(work), windows = o.windows] {
    if (hasFailed())
      return std::string();
    std::string error = work();
    if (windows)
      written(*windows);
    return error;
  };
  submit(s, std::move(o));
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

static const char *byHost(const std::vector<Range> &ranges) {
  static thread_local std::string message;
  message = touchedByHost(labelled("host"), ranges);
  return breakWith(message) ? nullptr : message.c_str();
}
const char *hostTouches(const void *p, size_t bytes, int32_t writes) {
  std::vector<Range> ranges;
  addRange(ranges, p, bytes, writes != 0);
  return byHost(ranges);
}
void hostAwaited(const void *who, uint32_t count, void *stream) {
  awaited(who, count, stream ? &static_cast<CudaStream *>(stream)->actor : nullptr);
}
const char *hostRuns(const DsLaunch *l) {
  std::vector<Range> ranges;
  for (const Range &r : Touches(*l).ranges())
    addRange(ranges, r.begin, static_cast<size_t>(r.end - r.begin), r.writes);
  return byHost(ranges);
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
std::string brokenBy() {
  std::lock_guard lock(machine().mutex);
  return machine().sticky;
}
int64_t graphLaunches() { return machine().graphs; }

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
    NAME(cudaErrorIllegalState)
    NAME(cudaErrorLaunchFailure)
    NAME(cudaErrorStreamCaptureUnsupported)
    NAME(cudaErrorStreamCaptureInvalidated)
    NAME(cudaErrorStreamCaptureIsolation)
    NAME(cudaErrorStreamCaptureWrongThread)
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
  cudaError_t e = spoils() ? cudaErrorStreamCaptureUnsupported : enter("cudaMalloc");
  return e ? e : allocate(p, bytes, true);
}
cudaError_t cudaMallocHost(void **p, size_t bytes) {
  cudaError_t e = spoils() ? cudaErrorStreamCaptureUnsupported : enter("cudaMallocHost");
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
  if (s->capture) {
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  s->drain();
  synchronised(s->actor);
  return hasFailed() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (cudaError_t error = enter("cudaEventRecord"))
    return error;
  if (!exists(e) || !exists(s))
    return cudaErrorInvalidResourceHandle;
  if (s->capture) { // other streams that join a capture are not emulated
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  record(e, s);
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
  if (s->capture) { // for what is not captured
    s->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (auto last = lastOf(e)) {
    waited(s->actor, last->clock);
    s->add([last] {
      last->wait();
      return std::string();
    });
  }
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (cudaError_t error = enter("cudaEventSynchronize"))
    return error;
  if (!exists(e))
    return cudaErrorInvalidResourceHandle;
  if (auto last = lastOf(e)) {
    last->wait();
    synchronised(last->clock);
  }
  return hasFailed() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind,
                            cudaStream_t s) {
  if (cudaError_t e = enter("cudaMemcpyAsync"))
    return e;
  if (!exists(s) || !isInside(dst, bytes) || !isInside(src, bytes))
    return cudaErrorInvalidValue;
  std::vector<Range> ranges;
  addRange(ranges, src, bytes, false);
  addRange(ranges, dst, bytes, true);
  return submit(s, {labelled("copy"), ranges, [=] {
                      if (hasFailed())
                        return std::string();
                      std::memmove(dst, src, bytes);
                      copyKnown(dst, src, bytes);
                      return std::string();
                    }});
}
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t s) {
  if (cudaError_t e = enter("cudaMemsetAsync"))
    return e;
  if (!exists(s) || !isInside(dst, bytes))
    return cudaErrorInvalidValue;
  std::vector<Range> ranges;
  addRange(ranges, dst, bytes, true);
  std::shared_ptr<Windows> windows = Touches::current() ? Touches::current()->windows() : nullptr;
  auto work = [=] {
    if (hasFailed())
      return std::string();
    if (windows)
      begin(*windows);
    std::memset(dst, byte, bytes);
    setKnown(dst, bytes);
    return std::string();
  };
  return submit(s, {labelled("fill"), ranges, work, windows});
}

// -- graphs -----------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (cudaError_t e = enter("cudaStreamBeginCapture"))
    return e;
  if (!exists(s))
    return cudaErrorInvalidResourceHandle;
  if (s->capture || capturing)
    return cudaErrorIllegalState;
  s->capture = std::make_unique<CudaGraph>();
  s->capture->thread = std::this_thread::get_id();
  capturing = s;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
  if (cudaError_t error = enter("cudaEventRecordWithFlags"))
    return error;
  if (!exists(e) || !exists(s))
    return cudaErrorInvalidResourceHandle;
  if ((flags & cudaEventRecordExternal) == 0 || !s->capture)
    return cudaErrorInvalidValue; // elsewhere cudaEventRecord does
  return submit(s, {"", {}, {}, nullptr, e});
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
  cudaError_t error = enter("cudaStreamEndCapture");
  *graph = nullptr;
  if (!exists(s))
    return cudaErrorInvalidResourceHandle;
  if (!s->capture)
    return cudaErrorIllegalState;
  if (s->capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  std::unique_ptr<CudaGraph> captured = std::move(s->capture);
  capturing = nullptr;
  if (error)
    return error;
  if (captured->invalid)
    return cudaErrorStreamCaptureInvalidated;
  *graph = captured.release();
  std::lock_guard lock(machine().mutex);
  machine().handles.insert(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  if (!exists(graph))
    return cudaErrorInvalidValue;
  if (cudaError_t e = create("cudaGraphInstantiate", exec))
    return e;
  (*exec)->nodes = graph->nodes;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy("cudaGraphDestroy", graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return destroy("cudaGraphExecDestroy", exec);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  if (cudaError_t e = enter("cudaGraphLaunch"))
    return e;
  if (!exists(exec) || !exists(s))
    return cudaErrorInvalidValue;
  if (s->capture) { // a graph in a graph
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  ++machine().graphs;
  s->add([nodes = exec->nodes] { // what each launch replaces is unknown again
    for (const Operation &o : nodes)
      if (o.windows)
        o.windows->begun = false;
    return std::string();
  });
  for (const Operation &o : exec->nodes)
    if (cudaError_t e = submit(s, o))
      return e;
  return cudaSuccess;
}
