// SPDX-License-Identifier: Apache-2.0
//
// What a Trainer is made of: for Trainer.cpp, which runs it, and TrainerPrepare.cpp, which sets it up.
#pragma once

#include "runtime/Anomaly.h"
#include "runtime/Checkpoint.h"
#include "runtime/DeviceExecutor.h"
#include "runtime/Trainer.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

namespace ds {

enum class Job { Load, Step, Eval, SaveModel, SaveCheckpoint, Stop };

inline int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// In ns.
struct StreamTotals {
  int64_t compute = 0, comm = 0, exposed = 0, dataWait = 0, io = 0, exposedIo = 0;
  explicit StreamTotals(const RankExecutor &e)
      : compute(e.times(Stream::Compute).busy), comm(e.times(Stream::Comm).busy),
        exposed(e.times(Stream::Compute).commWait), dataWait(e.times(Stream::Feed).dataWait),
        exposedIo(e.times(Stream::Compute).ioWait) {
    for (Stream s : {Stream::D2h, Stream::H2d, Stream::Read, Stream::Write})
      io += e.times(s).busy;
  }
  StreamTotals() = default;
};

struct Trainer::Impl {
  Schedule schedule;
  Device device;
  RunOptions options;
  int world = 1, threads = 1;
  int first = 0, local = 1; // ranks of this process; what is kept by rank is null for others
  std::vector<size_t> sequence;
  std::unique_ptr<Feeder> feeder;
  std::unique_ptr<Feeder> evalFeeder; // during an evaluation
  Abort abort;
  Abort never; // for waits that end by themselves
  std::vector<std::unique_ptr<Comm>> comms;
  std::vector<std::unique_ptr<LoadedRank>> ranks;
  std::vector<std::unique_ptr<RankExecutor>> executors;
  RunIdentity identity;
  std::vector<std::unique_ptr<MemoryWatch>> watches;   // by rank, or empty
  std::vector<std::unique_ptr<AnomalyHook>> anomalies; // by rank, or empty
  std::vector<TraceRing> traces;                       // rank * kStreams + stream
  std::vector<std::string> notes;
  int64_t startNs = nowNs();
  int64_t updates = 0, firstUpdate = 0;
  Manifest resumed; // of options.resume
  int64_t tokensPerSample = 0;
  int64_t valueAt[4] = {-1, -1, -1, -1};
  int lrBuffer = -1, scaleBuffer = -1;
  double minScale = std::numeric_limits<double>::infinity(); // that a loss scale can fall to

  // Jobs: the caller sets the fields, then counts `posted` up; every thread counts `finished` up, compute and feed
  // threads also `stepped`.
  std::atomic<Job> job = Job::Load;
  std::string savePath;
  std::vector<Status> statuses; // by rank, of the current job
  Counter posted, stepped, finished;
  uint32_t jobs = 0;
  Enqueued lastEnqueued; // of rank 0, up to the last update
  StreamTotals last;     // of rank 0, up to the last update
  std::vector<std::thread> pool;

  Status prepare();
  void describe();
  std::string pinNote() const;
  void threadMain(int rank, Stream stream);
  void runJob(int rank, Stream stream, int64_t update);
  Status load(int rank);
  StatusOr<int> deviceOf(int rank) const;
  void post(Job j);
  void drain();
  bool usesStream(Stream stream) const;
  Status checkDevice() const;
  bool isLocal(int rank) const { return rank >= first && rank < first + local; }
  const LoadedRank &lead() const { return *ranks[static_cast<size_t>(first)]; }
  Status makeComms();
  Status readResume();
  Status openEval();
  StatusOr<double> firstElement(int buffer, double otherwise) const;
  Manifest manifest() const; // of this run as it stands
  Status worst();
  ~Impl();
};

} // namespace ds
