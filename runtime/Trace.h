// SPDX-License-Identifier: Apache-2.0
//
// When each instruction ran, kept in rings that are allocated before the first update, and written as a
// Chrome trace (chrome://tracing, Perfetto): one process per rank, one thread per stream.
#pragma once

#include "ir/Schedule.h"

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

/// rings[rank * kStreams + stream]; times are relative to `start`.
Status writeTrace(const std::string &path, const Schedule &s, const std::vector<TraceRing> &rings,
                  int64_t start);

} // namespace ds
