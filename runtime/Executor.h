// SPDX-License-Identifier: Apache-2.0
//
// One rank's execution of updates. One thread per stream calls runUpdate; each walks its own list of
// instructions and meets the others only through counters: an instruction waits for counts of other streams,
// and a program's end waits for all streams, but for what they carry into the next program. Nothing is decided
// and nothing is allocated here.
#pragma once

#include "runtime/Feeder.h"
#include "runtime/MemoryWatch.h"
#include "runtime/Trace.h"

#include <atomic>

namespace ds {

/// The programs of one update, as indices: micro.only | micro.first, micro.mid..., micro.last; update. Before the
/// first update, `start` runs where there is one.
StatusOr<std::vector<size_t>> updateSequence(const Schedule &s);

/// What one stream has done since the start, in ns. Written by its thread only; others may look at any time, since
/// a carried instruction may still run when an update has ended.
struct alignas(64) StreamTimes {
  std::atomic<int64_t> busy = 0;     // inside instructions
  std::atomic<int64_t> commWait = 0; // compute: waiting for the comm stream
  std::atomic<int64_t> ioWait = 0;   // compute: waiting for transfers and host launches
  std::atomic<int64_t> dataWait = 0; // feed: waiting for the loader's ring
};

/// What enqueuing on a device has cost its thread since the start; collectives, where ranks' threads meet, left out.
struct Enqueued {
  int64_t instrs = 0, graphs = 0, ns = 0;
};

class RankExecutor {
public:
  virtual ~RankExecutor() = default;
  /// Everything must outlive the executor; trace: kStreams rings, or null.
  RankExecutor(const Schedule &s, const LoadedRank &rank, const std::vector<size_t> &sequence,
               Comm &comm, FeedSource *feeder, Abort &abort, TraceRing *trace);

  /// Runs this stream's part of update number `update`, what it carries included, which compute and feed do not
  /// wait for. Returns early once the job is aborted; the first error is raised there, with rank, update,
  /// program, instruction and origin.
  virtual void runUpdate(Stream stream, int64_t update);

  /// Runs this stream's part of `batches` rounds of program `eval`, fed by `data`, after update number `update` (-1: before
  /// the first). All streams must be idle before.
  virtual void runEval(Stream stream, int64_t update, int64_t batches, FeedSource &data);
  /// Of the last evaluation: the sum of losses times labels, and the labels.
  std::pair<double, double> evaluated() const { return {evalSum, evalCount}; }

  /// The whole update in list order on the calling thread, for hooks that look at single instructions.
  void runInOrder(int64_t update, InstrHook &hook);

  const std::vector<double> &values() const { return results; } // as LoadedRank::valueNames
  virtual Enqueued enqueued() const { return {}; }
  const StreamTimes &times(Stream s) const { return clocks[static_cast<int>(s)]; }

protected:
  /// Waits until `count` instructions of the stream are done in thread `self`'s current program. A device's streams are
  /// done in another sense: enqueued.
  bool waitFor(int self, int stream, uint32_t count, StreamTimes &clock);
  /// The stream has got to `target`, counted since the start: what is still missing on a device is waited for here.
  virtual bool settle(int /*self*/, int /*stream*/, uint32_t /*target*/) { return true; }
  void fail(const LoadedProgram &p, const Instr &in, int64_t update, const char *message);
  bool runProgram(size_t program, size_t position, int stream, int64_t update, FeedSource *data);
  bool runProgramInOrder(size_t program, size_t position, int64_t update, InstrHook &hook);
  /// Null, or what went wrong.
  virtual const char *execute(const LoadedInstr &in, size_t position, FeedSource *data,
                              StreamTimes &clock);
  /// This stream is about to have done `count` since the start.
  virtual void passed(int /*stream*/, uint32_t /*count*/) {}
  const char *moveBlocks(const LoadedInstr &in);

  const Schedule &schedule;
  const LoadedRank &rank;
  const std::vector<size_t> &sequence;
  Comm &comm;
  FeedSource *feeder;
  Abort &abort;
  TraceRing *trace;
  Counter done[kStreams]; // instructions and program ends since the start
  struct alignas(64) Base {
    uint32_t counts[kStreams] = {};
  };
  /// What a thread waits before; instr null: the program's end.
  struct Place {
    const LoadedProgram *program = nullptr;
    const Instr *instr = nullptr;
    int64_t update = 0;
  };
  Place places[kStreams];    // each thread's own
  Base bases[kStreams];      // each thread's own: the counts at which the current program began
  int start = -1, eval = -1; // indices of these programs
  size_t lossValue = 0, countValue = 0; // of eval, in results
  double evalSum = 0, evalCount = 0;
  struct alignas(64) Flag {
    bool set = false;
  };
  Flag started[kStreams]; // each thread's own
  StreamTimes clocks[kStreams];
  Status ioErrors[kStreams]; // each thread's own
  std::vector<double> results;
};

} // namespace ds
