// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Streams.h"

namespace ds::emulated {

thread_local CudaStream *capturing = nullptr;

bool spoils() {
  if (capturing && capturing->capture)
    capturing->capture->invalid = true;
  return capturing != nullptr;
}

void record(cudaEvent_t e, cudaStream_t s) {
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

cudaError_t submit(cudaStream_t s, Operation o) {
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
cudaError_t enqueue(cudaStream_t s, dim3 grid, dim3 dim, size_t shared,
                    std::function<void()> kernel) {
  if (cudaError_t e = enter("cudaLaunchKernel"))
    return e;
  uint64_t threads = uint64_t{dim.x} * dim.y * dim.z;
  bool tooMany = grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 ||
                 grid.z == 0 || grid.z > 65535 || threads == 0 || threads > 1024 ||
                 shared > 48 << 10;
  if (lastError) // what the plugin asks after a launch, and nobody has asked before
    return std::exchange(lastError, cudaSuccess);
  if (!exists(s) || tooMany)
    return cudaErrorInvalidValue;
  if (s->device != currentDevice)
    return cudaErrorInvalidResourceHandle;
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

} // namespace ds::emulated
