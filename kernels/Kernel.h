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
  void *stream;          // of a device with an api: where run() enqueues; else null
  struct DsFault *fault; // of such a device: what is found out too late for run() to return it
  int32_t id;            // of the launch, for the fault
};

/// Written by device code once it meets input that it cannot work on (a label out of range), read by the host after an
/// update. In pinned host memory; the first one stays.
struct DsFault {
  uint32_t set; // 0: none
  int32_t id;   // DsLaunch::id
  int32_t code; // for DsDeviceApi::faultText
  int64_t a, b; // what the text shows
};

/// Returns null, or a message that lives as long as the process (a static string) or the state.
typedef const char *(*DsPrepareFn)(const DsLaunch *launch, void **state);
typedef const char *(*DsRunFn)(const DsLaunch *launch, void *state);
typedef void (*DsDestroyFn)(void *state);
/// Workspace in bytes that the kernel wants for these shapes (data pointers null); used when planning.
typedef size_t (*DsWorkFn)(const DsLaunch *launch);
/// What prepare has chosen (a library's algorithm), for people; lives as long as the state. Null: nothing to tell.
typedef const char *(*DsNoteFn)(void *state);

struct DsKernel {
  const char *op; // mnemonic
  const char
      *dtypes; // space-separated combinations it accepts, e.g. "f32 f64"; see docs/kernels.md
  DsPrepareFn prepare; // may be null
  DsRunFn run;
  DsDestroyFn destroy; // may be null
  DsWorkFn work;       // may be null: none
  DsNoteFn note;       // may be null
};

/// What can be asked about one device.
struct DsDeviceInfo {
  char name[128];
  int64_t memory, freeMemory; // bytes
  int32_t emulated;    // 1: this is not the hardware, but host code that stands for it in tests
  char libraries[512]; // the vendor's that are used, with versions, and those that are missing
};

/// Where allocate() takes memory: the device's own, or host memory that it can copy from without waiting.
enum DsMemory { DsMemoryDevice = 0, DsMemoryPinned = 1 };

/// Kinds of DsCommApi::collective.
enum DsCollective { DsAllGather = 0, DsReduceScatter = 1, DsAllReduce = 2 };

/// One message of DsCommApi::exchange.
struct DsMessage {
  int32_t peer;
  int32_t sends; // 1: `data` is sent, 0: it is received
  void *data;
  size_t bytes;
};

constexpr size_t DS_COMM_ID = 128; // bytes of what ranks of one communicator must share

/// A vendor's collectives between devices of any processes. Functions are as those of DsDeviceApi; what is enqueued by all ranks in
/// the same order is matched. Calls of one communicator come from one thread, but for poll and abort.
struct DsCommApi {
  /// *found: whether the library is there. A message if it is, and cannot be used.
  const char *(*find)(int32_t *found);
  const char *(*newId)(void *id);
  /// Of the calling thread's device. Returns at once; poll says when all ranks have come.
  const char *(*create)(void **comm, const void *id, int32_t world, int32_t rank);
  /// *busy: something that was called is not through yet. The message is an error of this or another rank.
  const char *(*poll)(void *comm, int32_t *busy);
  /// `elems` of the whole vector, of type `dtype` in both; sums are in the library's order. In place as in runtime/Comm.h.
  const char *(*collective)(void *comm, int32_t kind, void *dst, const void *src, int64_t elems,
                            uint8_t dtype, void *stream);
  /// Sends and receives all of them as one step.
  const char *(*exchange)(void *comm, const DsMessage *messages, int32_t count, void *stream);
  /// Ends what is enqueued, wherever it stands. Then only destroy may follow.
  const char *(*abort)(void *comm);
  const char *(*destroy)(void *comm);
};

/// Of an emulated device, which looks whether events order what touches the same bytes: what it must know of the host's threads.
struct DsOrderCheck {
  /// What the calling thread does next, for messages.
  void (*label)(const char *program, const char *instruction);
  /// `who` has got to `count`, by the calling thread. Those who await it have waited for all that this thread has.
  void (*reached)(const void *who, uint32_t count);
  /// On whose behalf: what is enqueued on that stream, or the thread (null). who null: all that any thread has waited for.
  void (*awaited)(const void *who, uint32_t count, void *stream);
  /// The calling thread itself reads or writes, or runs a kernel.
  const char *(*touches)(const void *p, size_t bytes, int32_t writes);
  const char *(*runs)(const DsLaunch *launch);
};

/// A device with memory, streams and events of its own. All functions return null, or a message that is valid until the
/// thread's next call. What is enqueued on a stream runs in order; streams wait for each other by events only. Handles
/// are the plugin's.
struct DsDeviceApi {
  const char *(*count)(int32_t *devices);
  /// Makes device `device` the calling thread's, and checks that it runs this plugin's code. Each thread calls it first.
  const char *(*open)(int32_t device, DsDeviceInfo *info); // info may be null
  const char *(*allocate)(int32_t memory, size_t bytes, void **p);
  const char *(*release)(int32_t memory, void *p);
  const char *(*streamCreate)(void **stream);
  const char *(*streamDestroy)(void *stream);
  const char *(*streamSync)(void *stream); // the calling thread waits
  const char *(*eventCreate)(void **event);
  const char *(*eventDestroy)(void *event);
  const char *(*eventRecord)(void *event, void *stream);
  const char *(*eventWait)(void *stream, void *event); // the stream waits for the last record
  const char *(*eventSync)(void *event);               // the calling thread waits
  const char *(*copy)(void *dst, const void *src, size_t bytes, void *stream);
  const char *(*fill)(void *dst, int32_t byte, size_t bytes, void *stream);
  /// Lets device `device` read the memory of the `count` others with smaller and larger numbers.
  const char *(*peers)(int32_t device, int32_t count);
  /// dst = src[0] + src[1] + ... in this order, n elements of type `dtype`: 16-bit floats leave f32, i64 wraps. dst may be one of
  /// the sources where the types agree. `count` is at most 64.
  const char *(*sum)(void *dst, const void *const *src, int32_t count, int64_t n, uint8_t dtype,
                     void *stream);
  /// The text for a DsFault's code, with %lld for a and b in this order.
  const char *(*faultText)(int32_t code);
  const DsOrderCheck *order; // null: nobody looks
  /// What is enqueued on the stream from here to captureEnd becomes a graph instead of being done.
  const char *(*captureBegin)(void *stream);
  /// eventRecord for the graph: others see the event recorded whenever it runs.
  const char *(*captureRecord)(void *event, void *stream);
  const char *(*captureEnd)(void *stream, void **graph); // graph null: drops it
  const char *(*graphLaunch)(void *graph, void *stream);
  const char *(*graphDestroy)(void *graph);
  const DsCommApi *comm; // null: none
};

/// What a plugin libds<device>.so hands over. Lives as long as the process.
struct DsPlugin {
  uint32_t abi;      // DS_ABI of its build
  const char *build; // DS_BUILD of its build
  const char *device;
  const DsKernel *kernels;
  size_t numKernels;
  const DsDeviceApi *api; // null: kernels on host memory, which return once they are through
};

/// The one symbol of a plugin, "ds_plugin_entry". Gets the caller's abi and build; null if it cannot serve it.
typedef const DsPlugin *(*DsPluginEntry)(uint32_t abi, const char *build);

} // extern "C"

/// Changes with every change of the structs above.
#define DS_ABI 5u
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
