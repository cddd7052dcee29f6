// SPDX-License-Identifier: Apache-2.0
//
// One rank's execution of updates on a device with memory of its own. The compute thread enqueues what the device's streams do, in
// list order and with an event wherever the schedule waits, and does not wait for the device before the update's end, but
// where an instruction needs what the host's threads do (host launches, reads, writes). Those run as in RankExecutor.
#pragma once

#include "runtime/Executor.h"

#include <deque>
#include <mutex>

namespace ds {

class DeviceExecutor final : public RankExecutor {
public:
  /// As RankExecutor; the rank must have a deviceSide().
  DeviceExecutor(const Schedule &s, const LoadedRank &rank, const std::vector<size_t> &sequence,
                 Comm &comm, FeedSource *feeder, Abort &abort, TraceRing *trace);
  /// Makes the events. Before anything runs. With `graphs`, launches that wait for nothing else than each other are captured
  /// at their second time, and enqueued as one from then on.
  Status prepare(bool graphs = true);
  Enqueued enqueued() const override { return spent; }

  void runUpdate(Stream stream, int64_t update) override;
  void runEval(Stream stream, int64_t update, int64_t batches, FeedSource &data) override;

private:
  /// Of one program.
  struct Events {
    std::vector<void *> ofInstr; // null where nobody waits
    void *end = nullptr;         // all streams are through, but for what is carried
  };
  /// Launches that follow each other on the compute stream, of which only the first one waits for another stream.
  struct Segment {
    std::vector<const LoadedInstr *> launches;
    void *graph = nullptr; // of the second time and later ones
    bool isWarm = false;   // has run: kernels and libraries are loaded, which no capture allows
    bool byOne = false;    // this time
  };
  /// An event that stands for the first `count` things of its stream since the start.
  struct Mark {
    uint32_t count;
    void *event;
  };

  bool settle(int self, int stream, uint32_t target) override;
  const char *execute(const LoadedInstr &in, size_t position, FeedSource *data,
                      StreamTimes &clock) override;
  void passed(int stream, uint32_t count) override;
  void label(const LoadedProgram &p, const char *instr) const;
  bool useDevice(Stream s, int64_t update);
  void ended();
  const Instr *instrAt(size_t program, int stream, uint32_t count, size_t *of) const;
  bool issueProgram(size_t program, size_t position, int64_t update, FeedSource *data);
  bool issue(size_t program, const LoadedInstr &in, int index, size_t position, int64_t update,
             FeedSource *data);
  const char *finish(size_t program, const LoadedInstr &in, int index, int64_t begin,
                     int64_t update);
  const char *enqueue(const LoadedInstr &in, size_t position, FeedSource *data);
  void findSegments(size_t program);
  void *eventOf(size_t program, const Instr *i) const;
  bool awaitOthers(size_t program, const LoadedInstr &in, int64_t update);
  void issued(int stream, void *event);
  bool issueSegment(size_t program, Segment &s, int64_t update);
  bool capture(size_t program, Segment &s, int64_t update);
  bool joinStreams(size_t program, int previous, int64_t update);
  bool readResults(size_t program, int64_t update);
  void setMark(int stream, void *event);
  /// For what no instruction stands for: what of a program has failed, for messages.
  bool ok(const char *message, int64_t update, const LoadedProgram *p = nullptr,
          const char *at = "");

  DeviceSide &side;
  const DsDeviceApi &api;
  std::vector<Events> events;                // by program
  std::vector<std::deque<Segment>> segments; // by program
  std::vector<std::vector<Segment *>>
      within; // by program and instruction; null: enqueued by itself
  Enqueued spent;
  void *awaiting = nullptr; // the stream that the compute thread waits for others for
  int before = -1;          // the program issued last
  std::mutex marksMutex;
  std::deque<Mark> marks[kStreams];
  uint32_t begun[kStreams] = {}; // updates and evaluations, by each thread
  void *fed = nullptr;           // the feed stream's last copy
  Counter fedUpdates;            // updates whose copies are enqueued
  uint32_t fedBefore = 0;
};

} // namespace ds
