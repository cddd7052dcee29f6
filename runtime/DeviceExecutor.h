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
  /// Makes the events. Before anything runs.
  Status prepare();

  void runUpdate(Stream stream, int64_t update) override;
  void runEval(Stream stream, int64_t update, int64_t batches, FeedSource &data) override;

private:
  /// Of one program.
  struct Events {
    std::vector<void *> ofInstr; // null where nobody waits
    void *end = nullptr;         // all streams are through, but for what is carried
  };
  /// An event that stands for the first `count` things of its stream since the start.
  struct Mark {
    uint32_t count;
    void *event;
  };

  bool settle(int stream, uint32_t target) override;
  const char *execute(const LoadedInstr &in, size_t position, FeedSource *data,
                      StreamTimes &clock) override;
  void passed(int stream, uint32_t count) override;
  void label(const LoadedProgram &p, const char *instr) const;
  bool useDevice(int64_t update);
  const Instr *instrAt(size_t program, int stream, uint32_t count, size_t *of) const;
  bool issueProgram(size_t program, size_t position, int64_t update, FeedSource *data);
  bool issue(size_t program, const LoadedInstr &in, int index, size_t position, int64_t update,
             FeedSource *data);
  const char *enqueue(const LoadedInstr &in, size_t position, FeedSource *data);
  bool joinStreams(size_t program, int previous, int64_t update);
  bool readResults(size_t program, int64_t update);
  void setMark(int stream, void *event);
  bool ok(const char *message, int64_t update);

  DeviceSide &side;
  const DsDeviceApi &api;
  std::vector<Events> events; // by program
  int before = -1;            // the program issued last
  std::mutex marksMutex;
  std::deque<Mark> marks[kStreams];
  void *fed = nullptr; // the feed stream's last copy
  Counter fedUpdates;  // updates whose copies are enqueued
  uint32_t fedBefore = 0;
};

} // namespace ds
