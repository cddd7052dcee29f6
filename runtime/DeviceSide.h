// SPDX-License-Identifier: Apache-2.0
//
// What a rank holds on a device that has memory of its own: blocks, streams, and the way to copy. Every thread that uses it calls
// use() first. Errors name the call that failed.
#pragma once

#include "ir/Schedule.h"
#include "ir/Status.h"
#include "kernels/Kernel.h"

#include <memory>
#include <vector>

namespace ds {

class DeviceSide {
public:
  /// Opens device `ordinal`, and makes a stream for each of those of a schedule that such a device executes. pinnedBytes: what
  /// pin() can be asked for in all, each time kPinAlign more at most; it is one allocation.
  static StatusOr<std::unique_ptr<DeviceSide>> open(const DsDeviceApi &api, int ordinal,
                                                    int64_t pinnedBytes);
  DeviceSide(const DeviceSide &) = delete;
  DeviceSide &operator=(const DeviceSide &) = delete;
  ~DeviceSide(); // waits for what is enqueued, frees everything

  const DsDeviceApi &api() const { return functions; }
  const DsDeviceInfo &info() const { return about; }
  Status use() const; // of the calling thread, from now on
  /// Waits for all streams, whatever state they are in. Other ranks' devices may read this one's memory, so all are waited for before
  /// one of them goes.
  void drain() const;

  /// Compute, Comm, Feed, D2h and H2d. The others are the host's.
  static bool executes(Stream s) {
    return s != Stream::Host && s != Stream::Read && s != Stream::Write;
  }
  void *stream(Stream s) const { return streams[static_cast<int>(s)]; }
  /// In pinned memory, zero until something went wrong.
  DsFault *fault() const { return faults; }

  /// Of the device, filled with the byte; freed with this object.
  StatusOr<std::byte *> allocate(int64_t bytes, uint8_t fill);
  /// The next bytes of the pinned memory, filled with the byte.
  std::byte *pin(int64_t bytes, uint8_t fill);
  static constexpr int64_t kPinAlign = 4096;
  StatusOr<void *> event();
  void keepGraph(void *graph) { graphs.push_back(graph); } // destroys it in the end

  /// The calling thread waits for the copy. Other copies may be under way.
  Status copyNow(void *dst, const void *src, int64_t bytes) const;

  /// For an emulated device, which checks the order of accesses: what the calling thread has waited for comes before what
  /// those threads do that call begin() later.
  void settled() const;
  void begin() const;

private:
  DeviceSide(const DsDeviceApi &api, int ordinal) : functions(api), ordinal(ordinal) {}
  const DsDeviceApi &functions;
  int ordinal;
  DsDeviceInfo about = {};
  void *streams[kStreams] = {};
  void *copying = nullptr; // the stream of copyNow
  DsFault *faults = nullptr;
  std::vector<std::pair<DsMemory, void *>> blocks;
  std::byte *pinned = nullptr;
  int64_t pinnedBytes = 0, pinnedUsed = 0;
  std::vector<void *> events, graphs;
};

/// A message of the api as an error.
Status deviceStatus(const char *message);

} // namespace ds
