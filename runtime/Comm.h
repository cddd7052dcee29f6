// SPDX-License-Identifier: Apache-2.0
//
// Collectives, seen from one rank. An engine is bound once, at load, to the static list of collectives with
// their pointers; run(i) then allocates nothing. Sums are taken in rank order, in f32 (f64 for f64, exact
// for integers), so results do not depend on timing. One thread per rank calls run.
#pragma once

#include "ir/Schedule.h"
#include "runtime/Identity.h"
#include "runtime/Wait.h"

#include <memory>

namespace ds {

/// One collective of the schedule with this rank's pointers. In-place is allowed: an all_gather's source may
/// be its own slice of dst, a reduce_scatter's dst its own slice of src, an all_reduce's dst its src. dtype is the
/// source's; sums of 16-bit floats leave f32 in dst, and are never in place.
struct CommOp {
  InstrKind kind = InstrKind::AllReduce;
  std::string label;  // program and label, for messages
  std::string bucket; // what traffic is counted under
  DType dtype = DType::F32;
  int64_t elems = 0; // of the whole vector; a slice has elems / world
  void *src = nullptr;
  void *dst = nullptr;
  void *work = nullptr; // planned room for parts of other ranks
  int64_t workBytes = 0;
};

/// What this rank has sent, by bucket and kind.
struct CommTraffic {
  std::string bucket;
  InstrKind kind = InstrKind::AllReduce;
  int64_t calls = 0;
  int64_t elems = 0;
  int64_t bytes = 0;
};

class DeviceSide;

class Comm {
public:
  virtual ~Comm() = default;
  /// Before bind, of engines between devices with memory of their own.
  virtual void attach(DeviceSide &) {}
  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// All ranks call this once with their lists, which must agree in everything but pointers, and with what
  /// else they must have alike. Checks that before anything runs.
  virtual Status bind(std::vector<CommOp> ops, const RunIdentity &identity) = 0;
  /// Runs ops[i]; all ranks must run the same sequence. False when the job was aborted, or for what message() says.
  virtual bool run(size_t i) = 0;
  virtual const char *message() const { return "stopped, because the job was aborted"; }
  /// All ranks meet, outside of updates. False when one of them was not ok, or the job was aborted.
  virtual bool meet(bool ok) = 0;
  virtual std::vector<CommTraffic> traffic() const = 0;
  /// Gives back what belongs to the device. Ranks of one process call it at the same time: they may wait for each other.
  virtual void close() {}
};

struct LocalCommOptions {
  /// Slows every transfer to this rate per rank, to study overlap; 0: as fast as it goes.
  double bytesPerSecond = 0;
};

/// Ends for `world` ranks that are threads of this process. `abort` must outlive them.
std::vector<std::unique_ptr<Comm>> makeLocalComms(int world, Abort &abort,
                                                  const LocalCommOptions &o);

/// Elements that one rank sends for one call: (world - 1) / world of the vector, and for all_reduce, where
/// everybody reads everything, (world - 1) times the vector.
int64_t sentElems(InstrKind kind, int64_t elems, int64_t world);
/// Whether every engine can do them.
Status checkOps(const std::vector<CommOp> &ops, int world);
/// By bucket and kind, of calls[i] calls of ops[i].
std::vector<CommTraffic> trafficOf(const std::vector<CommOp> &ops,
                                   const std::vector<int64_t> &calls, int world);
/// A number that two different sequences (kinds, labels, types, lengths) do not share.
uint64_t hashCollectives(const std::vector<CommOp> &ops);

} // namespace ds
