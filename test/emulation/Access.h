// SPDX-License-Identifier: Apache-2.0
//
// Whether kernels touch what their launch says, and read only what was written. A launch's operands are windows of memory; each access of
// a kernel's compiled code (kernels/cuda is instrumented by the compiler, see CMakeLists.txt) must lie in one of them.
// What goes wrong ends the launch with file and line of the access.
#pragma once

#include "test/emulation/Order.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct DsLaunch;

namespace ds::emulated {

/// Memory that a launch may read, or read and write.
struct Window {
  const char *begin = nullptr, *end = nullptr;
  bool writes = false;
  std::string name;         // "operand 0"
  uint8_t *known = nullptr; // by byte: 1 once written; null where nobody keeps track
  bool isFault = false;     // several launches may write it at a time
};
struct Windows {
  std::vector<Window> list;
  std::vector<std::unique_ptr<uint8_t[]>> own; // `known` of memory that is no allocation
  std::vector<size_t> replaced; // of `list`: unknown until the first kernel writes them
  bool begun = false;
  Window *last = nullptr;
  std::string what; // the launch, for messages
};

/// What all launches of this scope's thread touch.
class Touches {
public:
  Touches();
  explicit Touches(const DsLaunch &l); // its operands, results, workspace and fault
  Touches(const Touches &) = delete;
  Touches &operator=(const Touches &) = delete;
  ~Touches();
  void reads(const void *p, size_t bytes, const std::string &name = "source");
  /// `replaces`: nothing of what was there before may be read.
  void writes(const void *p, size_t bytes, const std::string &name = "destination",
              bool replaces = false);

  /// Of the calling thread; null outside of all scopes.
  static const Touches *current();
  /// For the order check.
  std::vector<Range> ranges() const;
  /// For a launch that is enqueued now.
  std::shared_ptr<Windows> windows() const { return all; }

private:
  std::shared_ptr<Windows> all = std::make_shared<Windows>();
  const Touches *outer;
};

/// Whether accesses of kernels are seen in this build.
bool tracesAccesses();
/// What the launch replaces is unknown from now on; the first time only.
void begin(Windows &w);
/// All that the launch may write, it has: for what is not compiled from kernels/cuda.
void written(Windows &w);
/// While a kernel runs on this thread; null: behind it.
void traceInto(Windows *w);
/// An access that the compiler does not show: of atomics.
void touched(const void *p, size_t bytes, bool write, void *pc);

/// Bytes of device memory by address: where their `known` lies, or null.
uint8_t *knownAt(const void *p, size_t bytes);
/// Whether p lies in an allocation, or closely beside one.
bool isAllocated(const void *p);
} // namespace ds::emulated
