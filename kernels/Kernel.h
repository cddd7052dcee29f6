// SPDX-License-Identifier: Apache-2.0
//
// What one launch does: the ABI between the runtime and kernels of any device, also across dlopen.
// POD only; no std type, exception or ownership crosses it. A kernel is chosen at load by op, device and
// dtypes; prepare() may then look at everything that is static and build what it needs; run() gets the
// same description again, and pointers. Convention a kernel author can get wrong: destinations may be
// uninitialised; an in-place result (optimizers, accumulate, advance) has the same data pointer as its operand, and
// result 0 may have that of any operand which ir/Ops.def lets it overwrite, if both have one layout.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct DsTensor {
  void *data; // null in prepare()
  const int64_t *dims;
  const int64_t *strides; // elements, never null; 0 never occurs in destinations
  int32_t rank;
  uint8_t dtype; // ds::DType
};

/// One attribute of the op, complete with defaults. kind as in Ops.def: b i f s l.
struct DsAttr {
  const char *name;
  char kind;
  int64_t i;           // b, i
  double f;            // f
  const char *s;       // s
  const int64_t *list; // l
  int64_t count;       // l
};

/// Local element range [begin, end) of a shard or bucket that belongs to parameters of one group.
/// Padding is in no run. Runs are in increasing order.
struct DsRun {
  int64_t begin, end;
  int32_t group;
};

struct DsLaunch {
  const DsTensor *ins;
  const DsTensor *outs;
  int32_t numIns, numOuts;
  int32_t numAttrs;
  const DsAttr *attrs;
  /// Ops over buckets (adam, sgd, sum_squares, pack): runs[i] for operand i, numRuns[i] long; else null.
  const DsRun *const *runs;
  const int32_t *numRuns;
  void *work; // workspace of at most workBytes, 256-byte aligned; null in prepare()
  size_t workBytes;
  int32_t threads; // OpenMP threads of this stream
  int32_t rank, world;
};

/// Returns null, or a message that lives as long as the process (a static string) or the state.
typedef const char *(*DsPrepareFn)(const DsLaunch *launch, void **state);
typedef const char *(*DsRunFn)(const DsLaunch *launch, void *state);
typedef void (*DsDestroyFn)(void *state);
/// Workspace in bytes that the kernel wants for these shapes (data pointers null); used when planning.
typedef size_t (*DsWorkFn)(const DsLaunch *launch);

struct DsKernel {
  const char *op; // mnemonic
  const char
      *dtypes; // space-separated combinations it accepts, e.g. "f32 f64"; see docs/kernels.md
  DsPrepareFn prepare; // may be null
  DsRunFn run;
  DsDestroyFn destroy; // may be null
  DsWorkFn work;       // may be null: none
};

/// What a plugin libds<device>.so hands over. Lives as long as the process.
struct DsPlugin {
  uint32_t abi;      // DS_ABI of its build
  const char *build; // DS_BUILD of its build
  const char *device;
  const DsKernel *kernels;
  size_t numKernels;
};

/// The one symbol of a plugin, "ds_plugin_entry". Gets the caller's abi and build; null if it cannot serve it.
typedef const DsPlugin *(*DsPluginEntry)(uint32_t abi, const char *build);

} // extern "C"

/// Changes with every change of the structs above.
#define DS_ABI 1u
/// Plugin and program must come from one source state; the version stands for it.
#define DS_BUILD "dsplan 0.1.0"

namespace ds {

/// The attribute, which must exist (prepare/run are called with complete attributes).
const DsAttr &attr(const DsLaunch &l, const char *name);
inline bool flag(const DsLaunch &l, const char *name) { return attr(l, name).i != 0; }

/// Product of dims.
inline int64_t elems(const DsTensor &t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t.rank; ++i)
    n *= t.dims[i];
  return n;
}
bool isRowMajor(const DsTensor &t);

} // namespace ds
