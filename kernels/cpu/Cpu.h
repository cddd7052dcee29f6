// SPDX-License-Identifier: Apache-2.0
//
// What every kernel of the `cpu` device is built from. A kernel is a class K with
//   const char *prepare(const DsLaunch &);       checks and remembers everything static; may allocate
//   const char *run(const DsLaunch &);           allocates nothing
//   static size_t work(const DsLaunch &);        optional: workspace in bytes
// fnsOf<K>() makes the table entry; the last column of a CPU row in Kernels.def names it.
// Numbers: results may depend on shapes, strides and `threads`, never on addresses; f32 in, f32 out.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

#include <memory>
#include <new>

namespace ds::cpu {

struct KernelFns {
  DsPrepareFn prepare;
  DsRunFn run;
  DsDestroyFn destroy;
  DsWorkFn work;
};

void chooseTargets(); // kernels/cpu/Targets.h

template <class K> const char *prepareOf(const DsLaunch *launch, void **state) {
  chooseTargets();
  std::unique_ptr<K> kernel(new (std::nothrow) K);
  if (!kernel)
    return "out of memory";
  if (const char *message = kernel->prepare(*launch))
    return message;
  *state = kernel.release();
  return nullptr;
}
template <class K> const char *runOf(const DsLaunch *launch, void *state) {
  return static_cast<K *>(state)->run(*launch);
}
template <class K> void destroyOf(void *state) { delete static_cast<K *>(state); }

template <class K> constexpr KernelFns fnsOf() {
  if constexpr (requires(const DsLaunch &l) { K::work(l); })
    return {prepareOf<K>, runOf<K>, destroyOf<K>, [](const DsLaunch *l) { return K::work(*l); }};
  else
    return {prepareOf<K>, runOf<K>, destroyOf<K>, nullptr};
}

inline bool is(const DsTensor &t, DType d) { return t.dtype == static_cast<uint8_t>(d); }
inline int64_t elemBytes(const DsTensor &t) { return byteSize(static_cast<DType>(t.dtype)); }
template <class T> T *ptr(const DsTensor &t) { return static_cast<T *>(t.data); }
inline float *f32(const DsTensor &t) { return static_cast<float *>(t.data); }

/// Null if all operands and results are f32, else the message that prepare returns.
const char *requireF32(const DsLaunch &l);

/// Product of dims [begin, end).
inline int64_t product(const int64_t *dims, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i)
    n *= dims[i];
  return n;
}

/// An axis in [-rank, rank) as one in [0, rank).
inline int normAxis(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

inline constexpr size_t alignUp(size_t n) { return (n + 255) & ~size_t{255}; }

/// The workspace from byte `at` on.
template <class T> T *workAt(const DsLaunch &l, size_t at) {
  return reinterpret_cast<T *>(static_cast<char *>(l.work) + at);
}

} // namespace ds::cpu
