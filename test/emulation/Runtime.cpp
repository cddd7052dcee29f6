// SPDX-License-Identifier: Apache-2.0
//
// CUDA's functions, but for graphs. An error in a kernel or in an enqueued copy sticks: every later call returns it, as CUDA does.
#include "test/emulation/Streams.h"

using namespace ds::emulated;

bool ds::emulated::hasLibrary(const std::string &name) {
  const char *missing = std::getenv("DS_EMULATED_MISSING");
  return (',' + std::string(missing ? missing : "") + ',').find(',' + name + ',') ==
         std::string::npos;
}

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
cudaError_t cudaGetLastError() {
  cudaError_t e = enter("cudaGetLastError"), last = std::exchange(lastError, cudaSuccess);
  return e ? e : last;
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = static_cast<int>(fromEnvironment("DS_EMULATED_DEVICES", 8));
  if (fromEnvironment("DS_EMULATED_DRIVER", 13000) < 13000)
    return cudaErrorInsufficientDriver;
  return enter("cudaGetDeviceCount");
}
// 90 is 9.0. As nvcc builds the plugin, it has code for 8.0 and newer.
static int capability() { return static_cast<int>(fromEnvironment("DS_EMULATED_CAPABILITY", 90)); }
static int deviceCount() { return static_cast<int>(fromEnvironment("DS_EMULATED_DEVICES", 8)); }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= deviceCount())
    return failed(cudaErrorInvalidDevice);
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
  p->major = capability() / 10;
  p->minor = capability() % 10;
  p->totalGlobalMem = machine().memory;
  return enter("cudaGetDeviceProperties");
}
cudaError_t ds::emulated::kernelAttributes() {
  cudaError_t e = enter("cudaFuncGetAttributes");
  return !e && capability() < 80 ? cudaErrorNoKernelImageForDevice : e;
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
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
  if (cudaError_t e = enter("cudaDeviceEnablePeerAccess"))
    return e;
  std::lock_guard lock(machine().mutex);
  bool isNew = machine().peers.insert({currentDevice, other}).second;
  return isNew ? cudaSuccess : failed(cudaErrorPeerAccessAlreadyEnabled);
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
  if (e->device != s->device)
    return failed(cudaErrorInvalidResourceHandle);
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
