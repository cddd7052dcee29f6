// SPDX-License-Identifier: Apache-2.0
//
// The emulated machine: its memory, the calls that are counted and made to fail, the error that sticks.
#pragma once

#include "test/emulation/Access.h"
#include "test/emulation/Machine.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace ds::emulated {

struct Allocation {
  size_t bytes = 0;
  bool onDevice = false;
  std::unique_ptr<uint8_t, void (*)(void *)> known{nullptr, std::free}; // see Access.h
};

/// All that the process shares.
struct Machine {
  std::mutex mutex;
  std::map<char *, Allocation> allocations; // device and pinned memory
  size_t used = 0;
  size_t memory = static_cast<size_t>(fromEnvironment("DS_EMULATED_MEMORY", int64_t{8} << 30));
  std::set<std::pair<int, int>> peers;  // (device, the other that it may read)
  std::set<const void *> handles;       // streams, events, graphs
  std::atomic<int64_t> graphs = 0;      // launched
  std::string sticky;                   // the error of a launch
  int64_t objects = 0;                  // of libraries
  std::map<std::string, int64_t> calls; // how often, by name
  std::string failName;
  int64_t failIn = 0;
  Machine();
};
Machine &machine();

/// The calling thread's: its device, and the error that cudaGetLastError() returns once.
extern thread_local int currentDevice;
extern thread_local cudaError_t lastError;
/// Remembers it, as every function of CUDA's does.
cudaError_t failed(cudaError_t e);

/// Device memory, or pinned memory of the host.
cudaError_t allocate(void **p, size_t bytes, bool device);
cudaError_t release(void *p);
/// What is no allocation is the host's own business, and left out.
void addRange(std::vector<Range> &ranges, const void *p, size_t bytes, bool writes);
/// Marks bytes as written, or as the copied ones are.
void setKnown(void *dst, size_t bytes);
void copyKnown(void *dst, const void *src, size_t bytes);

/// Sticks, if it is an error. Whether it is none.
bool breakWith(const std::string &error);
bool hasFailed();

} // namespace ds::emulated
