// SPDX-License-Identifier: Apache-2.0
//
// What every file of the plugin is built from. These sources are compiled by nvcc, and by the host's compiler against the
// emulation of test/emulation, so they use CUDA's language only where both have it: launches go through launch(),
// shared memory is declared by DS_SHARED.
#pragma once

#include "kernels/Element.h"
#include "kernels/Kernel.h"
#include "kernels/cuda/Check.h"

#include <algorithm>
#include <type_traits>

#ifdef DS_CUDA_EMULATED
#define DS_SHARED(T, name, count)                                                                  \
  ::ds::emulated::SharedArray<T> name(count, #name, __FILE__, __LINE__)
#else
#define DS_SHARED(T, name, count) __shared__ __align__(16) T name[count]
#endif

// Loops over registers: what is indexed by their counters must not lie in memory.
#ifdef __CUDACC__
#define DS_UNROLL _Pragma("unroll")
#else
#define DS_UNROLL
#endif

namespace ds::cuda {

using elem::BF16;
using elem::Bool;
using elem::Compute;
using elem::F16;
using elem::kIsHalf;

/// What the launches of a scope read and write, for those that no DsLaunch describes.
#ifdef DS_CUDA_EMULATED
using emulated::Touches;
#else
struct Touches {
  void reads(const void *, size_t) {}
  void writes(const void *, size_t) {}
};
#endif

/// Null if all operands and results are row-major, else a message: for kernels that take no strides.
inline const char *requireRowMajor(const DsLaunch &l) {
  for (int32_t k = 0; k < l.numIns; ++k)
    if (!isRowMajor(l.ins[k]))
      return "an operand is not row-major";
  for (int32_t k = 0; k < l.numOuts; ++k)
    if (!isRowMajor(l.outs[k]))
      return "a result is not row-major";
  return nullptr;
}

inline cudaStream_t streamOf(const DsLaunch &l) { return static_cast<cudaStream_t>(l.stream); }

/// Enqueues kernel(args...) on the stream. Null, or a message.
template <typename... P, typename... A>
const char *launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   A... args) {
#ifdef DS_CUDA_EMULATED
  return checked(
      emulated::enqueue(stream, grid, block, shared, [=] { kernel(static_cast<P>(args)...); }),
      "cudaLaunchKernel");
#else
  kernel<<<grid, block, shared, stream>>>(static_cast<P>(args)...);
  return checked(cudaGetLastError(), "cudaLaunchKernel");
#endif
}

inline constexpr int kBlock = 256;
/// Blocks for n elements at one each; what is beyond the grid comes in further rounds of the kernel's loop.
inline dim3 gridFor(int64_t n, int64_t perBlock = kBlock) {
  return dim3(
      static_cast<unsigned>(std::clamp<int64_t>((n + perBlock - 1) / perBlock, 1, 1 << 16)));
}

/// This thread's first element, and the distance to its next, in a grid-stride loop.
__device__ inline int64_t firstIndex() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t indexStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Records what went wrong on the device; the first one stays.
__device__ inline void setFault(DsFault *f, int32_t id, int32_t code, int64_t a, int64_t b) {
  if (!f || atomicCAS(&f->set, 0u, 2u) != 0u)
    return;
  f->id = id;
  f->code = code;
  f->a = a;
  f->b = b;
  __threadfence_system();
  f->set = 1;
}

/// Codes of DsFault.
enum FaultCode : int32_t { kBadLabel = 1, kBadIndex, kZeroDivisor };

} // namespace ds::cuda
