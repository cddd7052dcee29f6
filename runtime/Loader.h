// SPDX-License-Identifier: Apache-2.0
//
// Turns a verified schedule into what one rank's threads execute: arenas, pointers, chosen and prepared
// kernels, wait targets. Everything is decided here, once; executing looks nothing up and allocates nothing.
#pragma once

#include "runtime/Arena.h"
#include "runtime/BlockFile.h"
#include "runtime/Buckets.h"
#include "runtime/Comm.h"
#include "runtime/Device.h"
#include "runtime/DeviceSide.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>

namespace ds {

struct LoadOptions {
  int rank = 0;
  int device = 0;        // its number, of those with memory of their own
  int threads = 1;       // of the compute stream's kernels
  uint8_t arenaFill = 0; // byte the arena starts with; tests use NaN patterns
  std::string nvmePath;  // folder of the file behind an nvme arena
  BlockFileOptions nvme;
  bool pinHost = false;    // page-lock the host arena where the system's limit allows
  int64_t pinnedBytes = 0; // for DeviceSide::pin() once, by the caller
};

struct LoadedInstr {
  struct WaitFor {
    int stream;
    uint32_t count; // instructions of that stream done in this program; "negative": before it
  };
  const Instr *instr = nullptr;
  int numWaits = 0;
  WaitFor waits[kStreams - 1] = {};
  // Launch
  DsLaunch launch = {};
  const DsKernel *kernel = nullptr;
  void *state = nullptr;
  // Collective: index into the rank's CommOps
  size_t comm = 0;
  // Feed: index into Schedule::inputs
  int input = -1;
  // Feed, transfers
  void *dst = nullptr;
  const void *src = nullptr;
  size_t bytes = 0;
  int64_t at = 0; // Read, Write: byte of the rank's file
};

/// A value the runtime reads after a program.
struct LoadedReturn {
  size_t value = 0; // index into LoadedRank::valueNames
  const Type *type = nullptr;
  bool empty = false; // no elements
  const void *data = nullptr;
  const void *onDevice = nullptr; // where it is copied from, on a device with memory of its own

  /// Element 0 as a number.
  double number() const;
};

struct LoadedProgram {
  const SchedProgram *program = nullptr;
  std::vector<LoadedInstr> streams[kStreams];
  uint32_t carried[kStreams] =
      {}; // at the end of each stream: what the program's end does not wait for
  std::vector<LoadedReturn> returns;
};

class LoadedRank {
public:
  /// What fills, checkpoints and savers see at once of what the host does not reach.
  static constexpr int64_t kPieceBytes = 1 << 20;

  /// The schedule must have passed verifySchedule, and must outlive the result. Allocates and touches the
  /// arenas: call it on the thread that computes.
  static StatusOr<std::unique_ptr<LoadedRank>> load(const Schedule &s, const Device &d,
                                                    const LoadOptions &o);
  ~LoadedRank();

  int rank = 0;
  std::vector<LoadedProgram> programs; // as Schedule::programs
  std::vector<CommOp> commOps;         // moved into Comm::bind
  std::vector<std::string> valueNames; // of all programs' returns, each once
  // Kernels that the device lacks, as "op on type", by the device they are taken from.
  std::map<std::string, std::vector<std::string>> borrowed;
  /// What kernels have chosen at load (a library's algorithm), and for how many instructions.
  std::map<std::string, int> choices;
  /// borrowed for people, one line for each of these devices.
  std::vector<std::string> borrowNotes(const std::string &device) const;

  const Arena &arena(size_t i) const { return arenas[i]; } // as Schedule::arenas
  /// On a device with memory of its own, else null. Its arenas are blocks of it, and arena() is empty.
  DeviceSide *deviceSide() const { return side.get(); }
  /// Of DsLaunch::id: program and instruction.
  std::pair<size_t, const Instr *> launchOf(int32_t id) const {
    return launches[static_cast<size_t>(id)];
  }
  /// Behind the nvme arena; null without one.
  BlockFile *file() const { return nvme.get(); }

  /// Start of a persistent buffer; null if it lies where the host does not reach: on nvme, in a device's own memory.
  std::byte *persistent(int buffer) const;

  /// Shows bytes [at, at + bytes) of a persistent buffer wherever it lies: memory as it is, nvme piece by piece in one
  /// small host buffer, each a whole number of elements. For one thread, between programs; stops at an error.
  using Look = std::function<Status(int64_t at, const std::byte *p, int64_t bytes)>;
  Status read(int buffer, int64_t at, int64_t bytes, const Look &look) const;
  /// The same for new contents: `fill` must write all of what it is shown.
  using Fill = std::function<Status(int64_t at, std::byte *p, int64_t bytes)>;
  Status write(int buffer, int64_t at, int64_t bytes, const Fill &fill) const;

private:
  friend class RankLoader;
  LoadedRank() = default;
  const Schedule *schedule = nullptr;
  std::unique_ptr<DeviceSide> side; // goes last: the others point into it
  std::vector<Arena> arenas;        // as Schedule::arenas; nothing for nvme, which is the file
  std::vector<std::byte *> bases;   // of the arenas, wherever they are; null for nvme
  std::vector<std::pair<size_t, const Instr *>> launches;
  std::unique_ptr<BlockFile> nvme;
  Arena staging;                 // one piece of the file, for read and write
  std::byte *pinned = nullptr;   // the same for a device's memory
  std::byte *returned = nullptr; // pinned: what programs return
  Status viaPinned(int buffer, int64_t at, int64_t bytes,
                   const std::function<Status(int64_t, std::byte *, int64_t)> &f,
                   bool toDevice) const;
  Abort never;
  // What launches point to; deques, because their elements must not move.
  std::deque<std::vector<DsTensor>> tensors;
  std::deque<std::vector<int64_t>> strides;
  std::deque<std::vector<DsAttr>> attrLists;
  std::deque<Attrs> attrValues;
  std::deque<std::vector<DsRun>> runLists;
  std::deque<std::vector<const DsRun *>> runPointers;
  std::deque<std::vector<int32_t>> runCounts;
  std::vector<std::pair<const DsKernel *, void *>> prepared; // states to destroy
};

} // namespace ds
