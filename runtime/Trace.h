// SPDX-License-Identifier: Apache-2.0
//
// When each instruction ran, kept in rings that are allocated before the first update, and written as a
// Chrome trace (chrome://tracing, Perfetto): one process per rank, one thread per stream.
#pragma once

#include "ir/Schedule.h"

#include <functional>
#include <string_view>
#include <vector>

namespace ds {

struct TraceEvent {
  int64_t update = 0;
  int64_t begin = 0, end = 0; // ns of the steady clock
  int32_t program = 0;        // index into Schedule::programs
  int32_t instr = 0;          // index into SchedProgram::instrs
};

/// The last `capacity` events of one stream of one rank. One writer.
class TraceRing {
public:
  explicit TraceRing(size_t capacity) : events(capacity) {}
  void add(const TraceEvent &e) { events[count++ % events.size()] = e; }
  /// Oldest first.
  std::vector<TraceEvent> list() const;

private:
  std::vector<TraceEvent> events;
  size_t count = 0;
};

/// The text of a Chrome trace, in parts. events[rank * kStreams + stream], oldest first; times are relative to `start`;
/// `suffix` is put behind the names of ranks.
Status emitTrace(const Schedule &s, const std::vector<std::vector<TraceEvent>> &events,
                 int64_t start, std::string_view suffix,
                 const std::function<Status(std::string_view)> &write);

/// The same as a file.
Status writeTrace(const std::string &path, const Schedule &s,
                  const std::vector<std::vector<TraceEvent>> &events, int64_t start);

} // namespace ds
