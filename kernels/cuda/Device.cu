// SPDX-License-Identifier: Apache-2.0
//
// Memory, streams and events of a CUDA device for the runtime.
#include "kernels/cuda/Cudnn.h"
#include "kernels/cuda/Device.h"
#include "kernels/cuda/Lt.h"
#include "kernels/cuda/Nccl.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace ds::cuda {

static thread_local char text[512];

const char *failure(const char *format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

// "cudaMalloc(p, n)" as written at the call; people know the name.
const char *checked(cudaError_t e, const char *call) {
  if (e == cudaSuccess)
    return nullptr;
  cudaGetLastError(); // or the next launch would be told of it
  auto name = static_cast<int>(std::strcspn(call, "("));
  return failure("%.*s: %s (%s)", name, call, cudaGetErrorName(e), cudaGetErrorString(e));
}

namespace {

__global__ void nothing(int) {}

const char *version(int v) {
  static thread_local char s[2][32];
  static thread_local int turn = 0;
  turn = 1 - turn;
  std::snprintf(s[turn], sizeof s[turn], "%d.%d", v / 1000, v % 1000 / 10);
  return s[turn];
}

const char *count(int32_t *devices) {
  int n = 0;
  cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
      return failure("there is no NVIDIA driver; this plugin needs one for CUDA %s",
                     version(runtime));
    return failure(
        "the NVIDIA driver supports CUDA %s, this plugin needs %s; install a newer driver",
        version(driver), version(runtime));
  }
  *devices = n;
  return checked(e, "cudaGetDeviceCount");
}

const char *open(int32_t device, DsDeviceInfo *info) {
  CUDA_TRY(cudaSetDevice(device));
  if (!info)
    return nullptr;
  cudaDeviceProp p;
  CUDA_TRY(cudaGetDeviceProperties(&p, device));
  cudaFuncAttributes a;
  cudaError_t e = cudaFuncGetAttributes(&a, nothing);
  if (e == cudaErrorNoKernelImageForDevice)
    return failure(
        "device %d (%s) is of compute capability %d.%d, which this plugin has no code for: "
        "it needs 8.0 or newer",
        device, p.name, p.major, p.minor);
  if (const char *message = checked(e, "cudaFuncGetAttributes"))
    return message;
  size_t available = 0, total = 0;
  CUDA_TRY(cudaMemGetInfo(&available, &total));
  std::snprintf(info->name, sizeof info->name, "%.*s", static_cast<int>(sizeof info->name) - 1,
                p.name);
  info->memory = static_cast<int64_t>(total);
  info->freeMemory = static_cast<int64_t>(available);
#ifdef DS_CUDA_EMULATED
  info->emulated = 1;
#else
  info->emulated = 0;
#endif
  const Lt *lt;
  if (const char *message = findLt(&lt))
    return message;
  if (const char *message = checkCudnn())
    return message;
  std::snprintf(info->libraries, sizeof info->libraries, "%s, %s, %s", describeLt().c_str(),
                describeNccl().c_str(), describeCudnn().c_str());
  return nullptr;
}

const char *allocate(int32_t memory, size_t bytes, void **p) {
  cudaError_t e = memory == DsMemoryDevice ? cudaMalloc(p, bytes) : cudaMallocHost(p, bytes);
  if (e == cudaErrorMemoryAllocation && memory == DsMemoryDevice) {
    cudaGetLastError(); // or later calls would return it, too
    size_t available = 0, total = 0;
    CUDA_TRY(cudaMemGetInfo(&available, &total));
    return failure("cudaMalloc: %zu bytes are needed, and %zu of the device's %zu are free", bytes,
                   available, total);
  }
  return checked(e, memory == DsMemoryDevice ? "cudaMalloc" : "cudaMallocHost");
}

const char *release(int32_t memory, void *p) {
  if (memory == DsMemoryDevice)
    return checked(cudaFree(p), "cudaFree");
  return checked(cudaFreeHost(p), "cudaFreeHost");
}

cudaStream_t stream(void *s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t event(void *e) { return static_cast<cudaEvent_t>(e); }

const char *streamCreate(void **s) {
  cudaStream_t made = nullptr;
  CUDA_TRY(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  *s = made;
  return nullptr;
}
const char *streamDestroy(void *s) {
  return checked(cudaStreamDestroy(stream(s)), "cudaStreamDestroy");
}
const char *streamSync(void *s) {
  return checked(cudaStreamSynchronize(stream(s)), "cudaStreamSynchronize");
}
const char *eventCreate(void **e) {
  cudaEvent_t made = nullptr;
  CUDA_TRY(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  *e = made;
  return nullptr;
}
const char *eventDestroy(void *e) {
  return checked(cudaEventDestroy(event(e)), "cudaEventDestroy");
}
const char *eventRecord(void *e, void *s) {
  return checked(cudaEventRecord(event(e), stream(s)), "cudaEventRecord");
}
const char *eventWait(void *s, void *e) {
  return checked(cudaStreamWaitEvent(stream(s), event(e), 0), "cudaStreamWaitEvent");
}
const char *eventSync(void *e) {
  return checked(cudaEventSynchronize(event(e)), "cudaEventSynchronize");
}
const char *copy(void *dst, const void *src, size_t bytes, void *s) {
  return checked(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream(s)), "cudaMemcpyAsync");
}
const char *fill(void *dst, int32_t byte, size_t bytes, void *s) {
  return checked(cudaMemsetAsync(dst, byte, bytes, stream(s)), "cudaMemsetAsync");
}

// Of the calling thread only: other ranks' threads go on.
const char *captureBegin(void *s) {
  return checked(cudaStreamBeginCapture(stream(s), cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture");
}
const char *captureRecord(void *e, void *s) {
  return checked(cudaEventRecordWithFlags(event(e), stream(s), cudaEventRecordExternal),
                 "cudaEventRecordWithFlags");
}
const char *captureEnd(void *s, void **graph) {
  cudaGraph_t captured = nullptr;
  const char *message = checked(cudaStreamEndCapture(stream(s), &captured), "cudaStreamEndCapture");
  if (!captured)
    return message;
  cudaGraphExec_t ready = nullptr;
  if (!message && graph)
    message = checked(cudaGraphInstantiate(&ready, captured, 0), "cudaGraphInstantiate");
  cudaError_t e = cudaGraphDestroy(captured);
  if (graph)
    *graph = ready;
  return message ? message : checked(e, "cudaGraphDestroy");
}
const char *graphLaunch(void *graph, void *s) {
  return checked(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream(s)),
                 "cudaGraphLaunch");
}
const char *graphDestroy(void *graph) {
  return checked(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy");
}

const char *peers(int32_t device, int32_t count) {
  for (int other = 0; other < count; ++other) {
    if (other == device)
      continue;
    int can = 0;
    CUDA_TRY(cudaDeviceCanAccessPeer(&can, device, other));
    if (!can)
      return failure("device %d cannot read the memory of device %d", device, other);
    cudaError_t e = cudaDeviceEnablePeerAccess(other, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();
    else if (const char *message = checked(e, "cudaDeviceEnablePeerAccess"))
      return message;
  }
  return nullptr;
}

const char *faultText(int32_t code) {
  switch (code) {
  case kBadLabel:
    return "label %lld is not in [0, %lld)";
  case kBadIndex:
    return "index %lld is not in [0, %lld)";
  case kZeroDivisor:
    return "the integer %lld is divided by %lld";
  default:
    return "fault of unknown kind (%lld, %lld)";
  }
}

#ifdef DS_CUDA_EMULATED
const DsOrderCheck kOrder = {emulated::setLabel, emulated::reached, emulated::hostAwaited,
                             emulated::hostTouches, emulated::hostRuns};
#endif

} // namespace

const DsDeviceApi kApi = {
    count,        open,          allocate,     release,     streamCreate, streamDestroy,
    streamSync,   eventCreate,   eventDestroy, eventRecord, eventWait,    eventSync,
    copy,         fill,          peers,        sumRanks,    faultText,
#ifdef DS_CUDA_EMULATED
    &kOrder,
#else
    nullptr,
#endif
    captureBegin, captureRecord, captureEnd,   graphLaunch, graphDestroy, kComm};

} // namespace ds::cuda
