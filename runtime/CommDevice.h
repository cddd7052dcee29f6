// SPDX-License-Identifier: Apache-2.0
//
// Collectives of ranks that are threads of one process, each with a device of its own: devices read each other's memory and
// sum in rank order, so the bits are those of the `local` engine. run() enqueues on the comm stream. Ranks' threads
// meet to know each other's events; nobody waits for a device.
#pragma once

#include "runtime/CommThreads.h"
#include "runtime/DeviceSide.h"

namespace ds {

class DeviceComm final : public ThreadComm {
public:
  using ThreadComm::ThreadComm;
  void attach(DeviceSide &d) override { side = &d; }
  bool run(size_t i) override;
  const char *message() const override { return failed ? failed : ThreadComm::message(); }

private:
  Status prepare(int64_t stagingBytes) override;
  bool ok(const char *m);
  bool meetStreams(void *event);

  DeviceSide *side = nullptr;
  std::byte *staging = nullptr; // an all_reduce's result until all have read its sources
  std::vector<const void *> sources;
  void *ready = nullptr, *through = nullptr; // events: sources are there; they are read
  const char *failed = nullptr;
};

/// `abort` must outlive them.
std::vector<std::unique_ptr<DeviceComm>> makeDeviceComms(int world, Abort &abort);

} // namespace ds
