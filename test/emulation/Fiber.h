// SPDX-License-Identifier: Apache-2.0
//
// Stacks that take turns on one OS thread: the threads of an emulated CUDA block.
#pragma once

#include <cstddef>

namespace ds::emulated {

/// A stack and where it stands. `main` of a fiber must never return; it switches away for good.
class Fiber {
public:
  Fiber() = default; // of the calling OS thread, filled by the first switch away from it
  explicit Fiber(void (*main)());
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;
  ~Fiber();

  /// Goes on in `to`, until somebody switches back to this one.
  void switchTo(Fiber &to);
  /// The first thing that `main` of a new fiber does.
  void begin();

private:
  void *stackPointer = nullptr;
  void *stack = nullptr;        // of its own
  const void *bottom = nullptr; // of whatever stack it has, for AddressSanitizer
  size_t bytes = 0;
  void *fakeStack = nullptr; // AddressSanitizer's, while this fiber is away
};

} // namespace ds::emulated
