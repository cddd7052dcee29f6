// SPDX-License-Identifier: Apache-2.0
//
// Whether what is enqueued is ordered with what touches the same bytes. Every stream and every thread of the host is an actor that counts
// what it does; events, synchronisation and what the runtime tells of its threads carry these counts from one to another. An
// operation must come behind all that it conflicts with by these counts alone: a missing event is found whenever it is missing,
// whatever runs first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds::emulated {

/// What has happened before: of each actor, how many of its doings.
struct Clock {
  std::vector<uint64_t> counts; // by actor
  bool includes(uint32_t actor, uint64_t n) const {
    return actor < counts.size() && counts[actor] >= n;
  }
  void join(const Clock &o);
};

/// Bytes that an operation touches.
struct Range {
  const char *begin, *end;
  bool writes;
};

class Actor {
public:
  Actor();
  Actor(const Actor &) = delete;
  Actor &operator=(const Actor &) = delete;
  ~Actor(); // its number serves another; what that one does counts as done behind it

private:
  friend std::string performed(Actor &, const std::string &, const std::vector<Range> &);
  friend void recorded(Actor &, Clock &);
  friend void waited(Actor &, const Clock &);
  friend void synchronised(const Actor &);
  friend void awaited(const void *, uint32_t, Actor *);
  friend struct Host;
  uint32_t number;
  Clock clock; // what precedes its next doing
};

// Of streams. The calling thread's past comes before whatever it enqueues.
/// "", or which earlier operation this one conflicts with.
std::string performed(Actor &stream, const std::string &what, const std::vector<Range> &ranges);
void recorded(Actor &stream, Clock &event);
void waited(Actor &stream, const Clock &event);

// Of the calling thread.
void synchronised(const Actor &stream);
void synchronised(const Clock &event);
/// The thread itself reads or writes.
std::string touchedByHost(const std::string &what, const std::vector<Range> &ranges);
/// `who` has got to `count`. Those that have awaited it have waited for all that the caller has waited for.
void reached(const void *who, uint32_t count);
/// On the stream's behalf, or the calling thread's. who null: whatever any thread has waited for.
void awaited(const void *who, uint32_t count, Actor *stream);

/// What the calling thread does next, for messages.
void setLabel(const char *program, const char *instruction);
std::string labelled(const char *kind);

/// Bytes that are known by another meaning from now on: freed.
void forgetAccesses(const void *begin, size_t bytes);

} // namespace ds::emulated
