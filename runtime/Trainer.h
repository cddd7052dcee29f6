// SPDX-License-Identifier: Apache-2.0
//
// Training under a schedule, on ranks that are threads or, with RunOptions::process, one of which is this process: what dsexec and
// the tests use. Threads, arenas and data are
// set up by create; step runs one update. What the schedule returns as loss, grad_norm, clip and skip, and
// the scalar lr before the update, is reported; all of them are the same on every rank.
#pragma once

#include "runtime/Device.h"
#include "runtime/ExchangeTcp.h"
#include "runtime/Executor.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ds {

struct RunOptions {
  std::string data;  // --data; may be empty if no program feeds
  uint64_t seed = 0; // of the data's permutation
  bool shuffle = true;
  int threads = 0;               // per rank's compute stream; 0: cores / ranks
  double linkBytesPerSecond = 0; // slows collectives (test knob); 0: off
  size_t traceEvents = 0;        // per stream; 0: no trace
  uint8_t arenaFill = 0;         // byte the arenas start with
  std::string nvmePath;          // folder of the ranks' files; needed by plans with an nvme arena
  BlockFileOptions nvme;
  bool graphs = true;   // of launches, on a device that knows them
  bool pinHost = false; // page-lock host memory where the system's limit allows
  Membership process;   // this process's part, if ranks are processes
  bool exactSums =
      false;            // add over ranks in their order, also where a library would choose another
  std::string evalData; // for evaluate, checked by create; empty: none
  std::string resume;   // folder of a checkpoint to go on from; empty: from the model's weights
  bool watch = false;   // execute in list order under a MemoryWatch (slow)
  bool detectAnomaly = false; // the same under an AnomalyHook
};

struct UpdateResult {
  int64_t update = 0; // 1 for the first
  double loss = std::numeric_limits<double>::quiet_NaN();
  double gradNorm = std::numeric_limits<double>::quiet_NaN();
  double clipFactor = std::numeric_limits<double>::quiet_NaN();
  double lr = std::numeric_limits<double>::quiet_NaN();
  double lossScale = 1;    // of this update
  bool scaleFalls = false; // skipped, and the loss scale has fallen or may still fall
  bool skipped = false;
  // On a device, of rank 0: the enqueuing thread's time per instruction, and graphs launched.
  double enqueueNs = std::numeric_limits<double>::quiet_NaN();
  int64_t graphLaunches = 0;
  std::string anomaly; // with RunOptions::detectAnomaly: where a number first was not finite, or ""
  int64_t samples = 0, tokens = 0; // of this update, over all ranks
  // Wall time, and of rank 0: inside kernels, inside collectives, computing stream waiting for
  // collectives, feed stream waiting for data.
  double stepMs = 0, computeMs = 0, commMs = 0, exposedCommMs = 0, dataWaitMs = 0;
  double ioMs = 0,
         exposedIoMs = 0; // transfers, and what compute waited for them and for host launches
};

struct EvalResult {
  double loss = std::numeric_limits<double>::quiet_NaN(); // mean over all labels
  int64_t samples = 0, dropped = 0;
};

class Trainer {
public:
  /// Verifies the schedule, checks its files, loads every rank. Takes the schedule over.
  static StatusOr<std::unique_ptr<Trainer>> create(Schedule s, Device device, const RunOptions &o);
  ~Trainer();

  /// One update. After an error every later call returns the same error.
  StatusOr<UpdateResult> step();
  /// Waits for what the last update has left running, and returns its error.
  Status finish();
  /// Any value that the schedule returns, by name, as of the last update on a rank (its first element).
  StatusOr<double> value(const std::string &name, int rank = 0) const;

  /// The loss over RunOptions::evalData with the weights as they are; changes nothing. Samples that do not fill a
  /// micro-batch on every rank are dropped.
  StatusOr<EvalResult> evaluate();

  Status saveModel(const std::string &path);
  /// The state after the last update as a checkpoint in dir (runtime/Checkpoint.h).
  Status saveCheckpoint(const std::string &dir);
  Status writeTrace(const std::string &path) const;
  /// The same events: [rank * kStreams + stream], oldest first.
  std::vector<std::vector<TraceEvent>> traceEvents() const;
  /// A parameter by its name or the model's, in the model's layout, put together from the ranks.
  StatusOr<std::vector<double>> readParam(const std::string &name) const;
  /// The bytes of a persistent buffer on one rank.
  StatusOr<std::vector<std::byte>> readBuffer(const std::string &name, int rank) const;

  const Schedule &schedule() const;
  const std::vector<std::string> &notes() const; // to show before the first update
  /// What rank 0's kernels have chosen at load, a line each, with the number of instructions.
  std::vector<std::string> kernelNotes() const;
  std::vector<CommTraffic> traffic(int rank) const;
  /// With RunOptions::watch: over all ranks, instructions that were watched and launches that ran on copies.
  std::pair<int64_t, int64_t> watched() const;
  int64_t updates() const;               // made so far, those before a resume included
  int64_t updatesPerEpoch() const;       // 0: endless data, or none
  int threads() const;                   // per rank
  int64_t arenaBytes(Space space) const; // of one rank
  std::string arenaText() const;         // the same for people: "arena 8.0 KiB, host 19.0 KiB"
  int64_t ringBytes() const;             // host memory for data, all ranks

private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> i);
  std::unique_ptr<Impl> impl;
};

} // namespace ds
