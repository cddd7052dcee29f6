// SPDX-License-Identifier: Apache-2.0
//
// The schedule IR (.dsched): instruction lists over named buffers in arenas; the only form in which memory
// is written. Plain structs, std only: the runtime loads this without LLVM. Syntax and rules S1..:
// docs/schedule.md. One file serves all ranks: sizes are equal on every rank, a rank only changes where
// its slice of a bucket starts.
#pragma once

#include "ir/Ops.h"
#include "ir/Source.h"
#include "ir/Status.h"
#include "ir/Type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

/// Host runs kernels on operands in host memory; the last four move bytes between spaces.
enum class Stream : uint8_t { Compute, Comm, Feed, Host, D2h, H2d, Read, Write };
inline constexpr int kStreams = 8;
std::string_view text(Stream s);

enum class InstrKind : uint8_t {
#define INSTR(kind, text, stream, summary) kind,
#include "ir/Instrs.def"
#undef INSTR
};
std::string_view text(InstrKind k); // mnemonic; empty for a launch, which prints its op's
Stream streamOf(InstrKind k);       // Compute for a launch, also for one that is on Host
bool isCollective(InstrKind k);
bool isTransfer(InstrKind k);
/// The stream of launches whose operands lie there.
Stream launchStream(Space s);

/// What a buffer is for. The persistent kinds lie in the persistent section (same offsets in every
/// program, kept between programs); the others belong to one program.
enum class BufferKind : uint8_t {
  Param,   // a bucket, or this rank's slice of it
  State,   // optimizer state
  Accum,   // gradient or loss accumulator
  Scalar,  // lr, step, ...
  Const,   // data of the model that is not trained
  Carry,   // a gathered bucket, kept from one program to the next
  Input,   // one micro-batch of an input or label, or the window's count
  Temp,    // one program's intermediate value
  Work,    // a kernel's workspace
  Staging, // a collective's staging memory
};
bool isPersistent(BufferKind k); // Param .. Input
std::string_view text(BufferKind k);

struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::Temp;
  Type type;          // local extent: a shard's dims are this rank's slice
  int64_t offset = 0; // bytes from the arena's start
  int64_t bytes = 0;
  int first = 0,
      last = 0; // Temp, Work, Staging: closed interval of instruction indices (program order)
  int line = 0; // of the text it was parsed from, for errors; 0: made by the planner
};

/// A typed window on a buffer. Every operand of an instruction is a place; place i < buffers is the
/// whole buffer i, the others are declared by `view` lines.
struct View {
  std::string name;
  int buffer = 0;     // into Schedule::persistent, then the program's own buffers (see Program)
  int64_t offset = 0; // bytes from the buffer's start
  Type type;
  std::vector<int64_t> strides; // elements; empty means row-major
  bool own = false; // this rank's slice: starts `rank` x bytes of type further; row-major
  int line = 0;
};

/// An operand: index of a buffer or of a view, in the numbering of SchedProgram.
struct PlaceRef {
  bool isView = false;
  int index = 0;
  bool operator==(const PlaceRef &) const = default;
};

struct Instr {
  Stream stream = Stream::Compute;
  InstrKind kind = InstrKind::Launch;
  OpKind op = OpKind::Copy; // Launch only
  std::string label;        // unique in the program: destination, or op.bucket for in-place ones
  std::vector<PlaceRef> ins;
  std::vector<PlaceRef> outs; // named destination(s) first, then in-place ones after "->"
  int named = 0;              // how many of outs stand before "="
  Attrs attrs;
  int work = -1;                 // Work or Staging buffer, or -1
  std::vector<int> waits;        // instruction indices on other streams; printed as sorted labels
  std::vector<int> carriedWaits; // the same for SchedProgram::carried
  bool carry = false;            // may still run when the program ends (rule S12)
  std::vector<int>
      throttles;     // planner only: instructions to wait for although no bytes conflict, so that
                     // what they read can be freed; become waits
  int origin = -1;   // index into Schedule::origins
  int64_t elems = 0; // collectives: elements of the full vector (traffic accounting)
  int line = 0;
};

/// Buffer numbering inside a program: [0, P) are Schedule::persistent, P + i is own[i].
struct SchedProgram {
  std::string name;
  std::vector<Buffer> own; // Temp, Work, Staging
  std::vector<View> views; // of persistent or own buffers
  std::vector<std::string>
      carried; // labels of what the program before may have left running, in order
  std::vector<Instr> instrs;
  std::vector<PlaceRef> returns; // values the runtime reads after the program (loss, norm, ...)
  std::vector<std::string> returnNames;
};

/// A parameter's place in a bucket, for loading and saving. Elements of the whole (padded) bucket.
struct SegmentInfo {
  std::string param;
  int64_t at = 0;
  std::vector<int64_t> shape;
  int64_t group = 0;
  Source source;
  std::string exportName;
};

/// A bucket: Buffer `bucket` holds it whole (repl) or as this rank's slice (shard).
struct BucketInfo {
  std::string name;
  int64_t elems = 0; // whole, padded to world x kQuantum
  DType dtype = DType::F32;
  bool sharded = false;
  bool trainable = true;
  std::string
      master; // 16-bit weights: the state buffer with the f32 values that they are rounded from; else empty
  bool running = false; // statistics that every micro-batch updates; not trainable
  std::vector<SegmentInfo> segments;
};

/// How the loader fills an Input buffer.
struct InputInfo {
  std::string name;
  InputMeta meta;
};

struct OriginInfo {
  std::string node, module, pass;
  bool operator==(const OriginInfo &) const = default;
};

/// Bytes of a block of nvme: alignment of its buffers and of the host memory they move to and from.
inline constexpr int64_t kNvmeBlock = 4096;

struct ArenaInfo {
  Space space = Space::Device;
  int64_t bytes = 0;           // persistent + the largest program's temporaries
  int64_t persistentBytes = 0; // section [0, persistentBytes)
  int64_t align = 256;
  int64_t load = 0; // lower bound: persistent + maximum over time of live bytes
};

/// Initial contents of Scalar and Const buffers, by buffer index in Schedule::persistent.
struct InitInfo {
  int buffer = 0;
  Source source;
};

/// The run's plan as the runtime needs it: which programs make an update (D6).
struct StepInfo {
  int64_t microBatch = 1; // rows per rank and micro-batch
  int64_t gradAccum = 1;  // micro-batches per update
  int64_t stage = 0;
};

struct Schedule {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> mesh;
  StepInfo step;
  std::vector<ArenaInfo> arenas; // one per space, Device first
  std::vector<Buffer> persistent;
  std::vector<BucketInfo> buckets; // bucket names are persistent buffer names
  std::vector<InitInfo> inits;
  std::vector<InputInfo> inputs; // names are persistent buffer names
  std::vector<SchedProgram>
      programs; // [start] micro.only | micro.first [micro.mid] micro.last, update
  std::vector<OriginInfo> origins;
  std::string directory; // base of relative Source paths; not printed
  std::string path;      // file it was parsed from, for errors; not printed

  int64_t world() const;
  const SchedProgram *program(std::string_view name) const;
  int findPersistent(std::string_view name) const; // -1 if none
};

// A place resolved to bytes: used by printer, verifier and loader alike.
struct PlaceInfo {
  const std::string *name;
  const Buffer *buffer;
  int bufferIndex;    // numbering of SchedProgram
  int64_t begin;      // bytes from the arena's start, on rank 0
  int64_t rankStride; // bytes that begin moves by from rank to rank; 0 unless View::own
  int64_t bytes;      // extent of the smallest window that holds all elements
  const Type *type;
  const std::vector<int64_t> *strides; // empty: row-major
};
/// The indices in r must be valid (parseSchedule and rule S1 see to it).
PlaceInfo resolve(const Schedule &s, const SchedProgram &p, PlaceRef r);
const Buffer &bufferAt(const Schedule &s, const SchedProgram &p, int index);

/// Indices of p's instructions that may still run when it ends: a suffix of each stream.
std::vector<int> carriedOut(const SchedProgram &p);

std::string printSchedule(const Schedule &s);
StatusOr<Schedule> parseSchedule(std::string_view text, std::string_view path);
/// Every rule S1..; reports all violations, each with both instructions, bytes and origins.
Status verifySchedule(const Schedule &s);

} // namespace ds
