// SPDX-License-Identifier: Apache-2.0
//
// How threads wait for each other: monotone counters that spin briefly, then sleep on a futex. Every wait
// looks at the job's Abort, also while asleep, so a failing rank stops all others within milliseconds and
// nobody waits forever. Nothing here allocates, except raising an error.
#pragma once

#include "ir/Status.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace ds {

/// The job's first error. Raised once; all waits return false from then on.
class Abort {
public:
  void raise(Status s);
  bool raised() const { return flag.load(std::memory_order_acquire); }
  /// A copy of the first error; internal error if none was raised.
  Status status() const;

private:
  std::atomic<bool> flag = false;
  mutable std::mutex mutex;
  Status first;
};

/// What a rank says that failed only because another one did; the other's error is the one to show.
Status stoppedByOther();
bool isStoppedByOther(const Status &s);

/// A counter of things done. It may wrap: a target must be less than 2^31 ahead.
class alignas(64) Counter {
public:
  uint32_t value() const { return count.load(std::memory_order_acquire); }
  bool reached(uint32_t target) const { return static_cast<int32_t>(value() - target) >= 0; }
  void add(uint32_t n = 1);
  /// Returns when reached(target), or false when the job is aborted.
  bool wait(uint32_t target, const Abort &abort);

private:
  std::atomic<uint32_t> count = 0;
  std::atomic<uint32_t> sleepers = 0;
};

/// All `size` parties arrive, then all go on. Returns false when the job is aborted.
class Barrier {
public:
  explicit Barrier(uint32_t size) : size(size) {}
  bool arrive(const Abort &abort);

private:
  const uint32_t size;
  std::atomic<uint32_t> arrived = 0;
  Counter generation;
};

/// How often waits look before they sleep. Process-wide; 0 is best when threads outnumber cores.
void setSpins(int spins);

} // namespace ds
