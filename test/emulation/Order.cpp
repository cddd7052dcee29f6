// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Order.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace ds::emulated {

namespace {

/// An operation that touched some bytes.
struct Access {
  uint32_t actor = 0;
  uint64_t number = 0; // 0: none
  std::shared_ptr<const std::string> what;
};
/// The last accesses of some bytes.
struct Span {
  const char *end;
  Access write;
  std::vector<Access> reads; // since then; the latest of each actor
};

struct World {
  std::mutex mutex;
  std::vector<uint64_t> done;         // by actor
  std::vector<uint32_t> idle;         // actors
  std::map<const char *, Span> spans; // by their first byte
  Clock anybody;                      // what any thread of the host has waited for
  std::map<const void *, std::map<uint32_t, Clock>> counters;
};
World &world() {
  static auto *w = new World; // outlives all threads
  return *w;
}
constexpr size_t kCounts = 4096; // of a counter that are kept

// Cuts the span that holds `at` in two.
void cut(World &w, const char *at) {
  auto it = w.spans.upper_bound(at);
  if (it == w.spans.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Span rest = it->second;
  it->second.end = at;
  w.spans.emplace(at, std::move(rest));
}

std::string conflict(const Access &now, bool writes, const Access &then, bool wrote,
                     const char *begin, const char *end) {
  if (then.number == 0)
    return "";
  return *now.what + (writes ? " writes " : " reads ") + std::to_string(end - begin) +
         " bytes that " + *then.what + (wrote ? " writes" : " reads") +
         ", and nothing orders the two";
}

std::string touch(World &w, const Clock &before, const Access &now, const Range &r) {
  if (r.begin == r.end)
    return "";
  cut(w, r.begin);
  cut(w, r.end);
  auto unordered = [&](const Access &a) {
    return a.number != 0 && !before.includes(a.actor, a.number);
  };
  const char *next = r.begin; // nothing is known of [next, the coming span)
  for (auto it = w.spans.lower_bound(r.begin); it != w.spans.end() && it->first < r.end; ++it) {
    Span &s = it->second;
    if (unordered(s.write))
      return conflict(now, r.writes, s.write, true, it->first, s.end);
    for (const Access &a : s.reads)
      if (r.writes && unordered(a))
        return conflict(now, true, a, false, it->first, s.end);
  }
  if (r.writes) {
    w.spans.erase(w.spans.lower_bound(r.begin), w.spans.lower_bound(r.end));
    w.spans.emplace(r.begin, Span{r.end, now, {}});
    return "";
  }
  for (auto it = w.spans.lower_bound(r.begin); it != w.spans.end() && it->first < r.end; ++it) {
    if (next < it->first)
      w.spans.emplace(next, Span{it->first, {}, {now}});
    next = it->second.end;
    std::vector<Access> &reads = it->second.reads;
    auto own = std::find_if(reads.begin(), reads.end(),
                            [&](const Access &a) { return a.actor == now.actor; });
    if (own != reads.end())
      *own = now;
    else
      reads.push_back(now);
  }
  if (next < r.end)
    w.spans.emplace(next, Span{r.end, {}, {now}});
  return "";
}

std::string perform(World &w, uint32_t actor, Clock &clock, const std::string &what,
                    const std::vector<Range> &ranges) {
  if (clock.counts.size() <= actor)
    clock.counts.resize(actor + 1);
  Access now{actor, ++w.done[actor], std::make_shared<const std::string>(what)};
  clock.counts[actor] = now.number;
  for (const Range &r : ranges)
    if (std::string message = touch(w, clock, now, r); !message.empty())
      return message;
  return "";
}

} // namespace

void Clock::join(const Clock &o) {
  if (counts.size() < o.counts.size())
    counts.resize(o.counts.size());
  for (size_t i = 0; i < o.counts.size(); ++i)
    counts[i] = std::max(counts[i], o.counts[i]);
}

Actor::Actor() {
  World &w = world();
  std::lock_guard lock(w.mutex);
  if (w.idle.empty()) {
    w.idle.push_back(static_cast<uint32_t>(w.done.size()));
    w.done.push_back(0);
  }
  number = w.idle.back();
  w.idle.pop_back();
  clock.counts.resize(number + 1);
  clock.counts[number] = w.done[number];
}
Actor::~Actor() {
  std::lock_guard lock(world().mutex);
  world().idle.push_back(number);
}

/// The calling thread as an actor.
struct Host {
  Actor actor;
  std::string program, instruction;
  Clock &clock() { return actor.clock; }
  uint32_t number() const { return actor.number; }
};
static Host &host() {
  static thread_local Host h;
  return h;
}

std::string performed(Actor &stream, const std::string &what, const std::vector<Range> &ranges) {
  Host &h = host();
  std::lock_guard lock(world().mutex);
  stream.clock.join(h.clock());
  return perform(world(), stream.number, stream.clock, what, ranges);
}
void recorded(Actor &stream, Clock &event) {
  Host &h = host();
  std::lock_guard lock(world().mutex);
  stream.clock.join(h.clock());
  event = stream.clock;
}
void waited(Actor &stream, const Clock &event) {
  std::lock_guard lock(world().mutex);
  stream.clock.join(event);
}

void synchronised(const Clock &event) {
  Host &h = host();
  std::lock_guard lock(world().mutex);
  h.clock().join(event);
  world().anybody.join(event);
}
void synchronised(const Actor &stream) { synchronised(stream.clock); }

std::string touchedByHost(const std::string &what, const std::vector<Range> &ranges) {
  Host &h = host();
  std::lock_guard lock(world().mutex);
  return perform(world(), h.number(), h.clock(), what, ranges);
}

void reached(const void *who, uint32_t count) {
  Host &h = host();
  std::lock_guard lock(world().mutex);
  std::map<uint32_t, Clock> &counts = world().counters[who];
  counts[count] = h.clock();
  if (counts.size() > kCounts)
    counts.erase(counts.begin());
  world().anybody.join(h.clock());
}
void awaited(const void *who, uint32_t count, Actor *stream) {
  Clock &clock = stream ? stream->clock : host().clock();
  World &w = world();
  std::lock_guard lock(w.mutex);
  if (!who)
    return clock.join(w.anybody);
  auto it = w.counters.find(who);
  if (it == w.counters.end())
    return;
  if (auto at = it->second.find(count); at != it->second.end())
    clock.join(at->second);
}

void setLabel(const char *program, const char *instruction) {
  host().program = program;
  host().instruction = instruction;
}
std::string labelled(const char *kind) {
  const Host &h = host();
  if (h.instruction.empty())
    return kind;
  return h.program + ": " + h.instruction + " (" + kind + ")";
}

void forgetAccesses(const void *begin, size_t bytes) {
  auto *at = static_cast<const char *>(begin);
  World &w = world();
  std::lock_guard lock(w.mutex);
  cut(w, at);
  cut(w, at + bytes);
  w.spans.erase(w.spans.lower_bound(at), w.spans.lower_bound(at + bytes));
}

} // namespace ds::emulated
