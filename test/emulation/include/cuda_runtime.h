// SPDX-License-Identifier: Apache-2.0
//
// Stands for CUDA's header of this name when kernels/cuda is compiled for the CPU, for tests only. It has what these
// sources use, with CUDA's names and meanings; what they do not use is missing on purpose. Streams are threads, so that
// what no event orders really runs at any time.
#pragma once

#include "test/emulation/Access.h"
#include "test/emulation/Grid.h"
#include "test/emulation/Warp.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::ds::emulated::current.threadIdx)
#define blockIdx (::ds::emulated::current.blockIdx)
#define blockDim (::ds::emulated::current.blockDim)
#define gridDim (::ds::emulated::current.gridDim)
#define warpSize 32

#define __syncthreads() ::ds::emulated::syncBlock(__FILE__, __LINE__)
#define __syncwarp(...) ::ds::emulated::syncWarp(0xffffffffu, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, lanes)                                                        \
  ::ds::emulated::shuffled(mask, value, ::ds::emulated::laneOf() ^ (lanes), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, lanes)                                                       \
  ::ds::emulated::shuffled(mask, value, ::ds::emulated::laneOf() + (lanes), __FILE__, __LINE__)
#define __shfl_sync(mask, value, lane)                                                             \
  ::ds::emulated::shuffled(mask, value, lane, __FILE__, __LINE__)
#define __popc(bits) std::popcount(static_cast<unsigned>(bits))
#define __ballot_sync(mask, value) ::ds::emulated::ballot(mask, value, __FILE__, __LINE__)

namespace ds::emulated {

template <typename T> T shuffled(uint32_t mask, T value, int lane, const char *file, int line) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  if (lane < 0 || lane >= 32) // CUDA gives the caller's own value
    lane = laneOf();
  bits = exchange(mask, bits, lane, file, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace ds::emulated

// Kernels run on one OS thread per stream; several streams may add to one place. Told by themselves what they touch.
#define DS_EMULATED_ATOMIC __attribute__((noinline, no_sanitize("thread")))
template <typename T> DS_EMULATED_ATOMIC T atomicAdd(T *p, T v) {
  ::ds::emulated::touched(p, sizeof v, true, __builtin_return_address(0));
  T old, sum;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do
    sum = old + v;
  while (!__atomic_compare_exchange(p, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
DS_EMULATED_ATOMIC inline unsigned atomicCAS(unsigned *p, unsigned expected, unsigned v) {
  ::ds::emulated::touched(p, sizeof v, true, __builtin_return_address(0));
  __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline void __threadfence_system() {}

// -- the runtime ------------------------------------------------------------------------------------

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorIllegalState = 401,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorUnknown = 999,
};
const char *cudaGetErrorName(cudaError_t e);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError();

struct cudaDeviceProp {
  char name[256];
  int major, minor;
  size_t totalGlobalMem;
};
struct cudaFuncAttributes {
  int numRegs;
};
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
namespace ds::emulated {
cudaError_t kernelAttributes();
}
template <typename K> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, K) {
  a->numRegs = 0;
  return ::ds::emulated::kernelAttributes();
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int other);
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);

using cudaStream_t = struct CudaStream *;
using cudaEvent_t = struct CudaEvent *;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
using cudaGraph_t = struct CudaGraph *;
using cudaGraphExec_t = struct CudaGraphExec *;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
constexpr unsigned cudaEventRecordExternal = 1;
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t s);

namespace ds::emulated {

/// What a launch becomes. Its arguments are copied when it is made.
cudaError_t enqueue(cudaStream_t s, dim3 grid, dim3 block, size_t shared,
                    std::function<void()> kernel);

/// The calling thread of the host reads or writes, or runs a kernel. Null, or what nothing orders it with.
const char *hostTouches(const void *p, size_t bytes, int32_t writes);
const char *hostRuns(const DsLaunch *l);
/// awaited() of Order.h.
void hostAwaited(const void *who, uint32_t count, void *stream);

/// Call number `n` from now on (1: the next) of the function `name`, or of any if it is "", fails. 0: none does.
void failCall(const std::string &name, int64_t n);
/// Calls of the runtime so far.
int64_t calls(const std::string &name = "");
/// Allocations, and libraries' objects, that were not freed.
int64_t liveAllocations();
/// Unless DS_EMULATED_MISSING names it.
bool hasLibrary(const std::string &name);
/// What has gone wrong on the machine, and makes all calls fail since then; "": nothing.
std::string brokenBy();
/// Graphs that were launched.
int64_t graphLaunches();

} // namespace ds::emulated
