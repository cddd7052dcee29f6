// SPDX-License-Identifier: Apache-2.0
#include "runtime/Wait.h"

#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ds {

static std::atomic<int> spinLimit = 200;

void setSpins(int spins) { spinLimit.store(spins, std::memory_order_relaxed); }

static Status copyOf(const Status &s) {
  Status out;
  for (const ErrorEntry &e : s.entries()) {
    Status one = Status::error(e.text, s.code()).at(e.place);
    for (const std::string &n : e.notes)
      one = std::move(one).note(n);
    out.merge(std::move(one));
  }
  return out;
}

void Abort::raise(Status s) {
  std::lock_guard lock(mutex);
  if (flag.load(std::memory_order_relaxed))
    return;
  first = std::move(s);
  flag.store(true, std::memory_order_release);
}

Status Abort::status() const {
  std::lock_guard lock(mutex);
  return first.ok() ? Status::internal("the job was stopped without an error") : copyOf(first);
}

static constexpr const char *kStopped = "stopped, because another rank failed";

Status stoppedByOther() { return Status::error(kStopped); }

bool isStoppedByOther(const Status &s) { return !s.ok() && s.entries()[0].text == kStopped; }

static uint32_t *word(std::atomic<uint32_t> &a) { return reinterpret_cast<uint32_t *>(&a); }

void Counter::add(uint32_t n) {
  count.fetch_add(n, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, word(count), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

bool Counter::wait(uint32_t target, const Abort &abort) {
  for (int i = spinLimit.load(std::memory_order_relaxed); i >= 0; --i) {
    if (reached(target))
      return true;
    if (abort.raised())
      return false;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  // The timeout bounds how long an abort goes unnoticed; a finished wait is woken at once.
  const timespec timeout = {0, 20'000'000};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool done = false;
  while (!abort.raised()) {
    uint32_t seen = count.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - target) >= 0) {
      done = true;
      break;
    }
    syscall(SYS_futex, word(count), FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return done;
}

bool Barrier::arrive(const Abort &abort) {
  uint32_t next = generation.value() + 1;
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
    arrived.store(0, std::memory_order_relaxed);
    generation.add();
    return true;
  }
  return generation.wait(next, abort);
}

} // namespace ds
