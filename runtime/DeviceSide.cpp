// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceSide.h"

#include <cassert>
#include <cstring>
#include <fmt/format.h>

namespace ds {

Status deviceStatus(const char *message) { return message ? Status::error(message) : Status(); }

StatusOr<std::unique_ptr<DeviceSide>> DeviceSide::open(const DsDeviceApi &api, int ordinal,
                                                       int64_t pinnedBytes) {
  int32_t devices = 0;
  TRY(deviceStatus(api.count(&devices)));
  if (devices == 0)
    return Status::error(
        "the machine shows no device; CUDA_VISIBLE_DEVICES hides those it does not name");
  if (ordinal >= devices)
    return Status::error(fmt::format("rank {} needs a device of its own, and the machine has {}; "
                                     "--world-size {} or less fits",
                                     ordinal, devices, devices));
  std::unique_ptr<DeviceSide> d(new DeviceSide(api, ordinal));
  TRY(deviceStatus(api.open(ordinal, &d->about)));
  for (int s = 0; s < kStreams; ++s)
    if (executes(static_cast<Stream>(s)))
      TRY(deviceStatus(api.streamCreate(&d->streams[s])));
  TRY(deviceStatus(api.streamCreate(&d->copying)));
  d->pinnedBytes = pinnedBytes + kPinAlign;
  void *pinned = nullptr;
  TRY(deviceStatus(api.allocate(DsMemoryPinned, static_cast<size_t>(d->pinnedBytes), &pinned)));
  d->blocks.push_back({DsMemoryPinned, pinned});
  d->pinned = static_cast<std::byte *>(pinned);
  d->faults = reinterpret_cast<DsFault *>(d->pin(sizeof(DsFault), 0));
  return d;
}

void DeviceSide::drain() const {
  functions.open(ordinal, nullptr);
  for (void *s : streams)
    if (s)
      functions.streamSync(s);
  settled();
}

DeviceSide::~DeviceSide() {
  drain();
  for (void *g : graphs)
    functions.graphDestroy(g);
  for (void *e : events)
    functions.eventDestroy(e);
  for (void *s : streams)
    if (s)
      functions.streamDestroy(s);
  if (copying)
    functions.streamDestroy(copying);
  for (auto [memory, p] : blocks)
    functions.release(memory, p);
}

Status DeviceSide::use() const { return deviceStatus(functions.open(ordinal, nullptr)); }

StatusOr<std::byte *> DeviceSide::allocate(int64_t bytes, uint8_t fill) {
  void *p = nullptr;
  auto n = static_cast<size_t>(bytes);
  TRY(deviceStatus(functions.allocate(DsMemoryDevice, n, &p)));
  blocks.push_back({DsMemoryDevice, p});
  TRY(deviceStatus(functions.fill(p, fill, n, copying)));
  TRY(deviceStatus(functions.streamSync(copying)));
  return static_cast<std::byte *>(p);
}

std::byte *DeviceSide::pin(int64_t bytes, uint8_t fill) {
  std::byte *p = pinned + pinnedUsed;
  pinnedUsed += (bytes + kPinAlign - 1) / kPinAlign * kPinAlign;
  assert(pinnedUsed <= pinnedBytes);
  std::memset(p, fill, static_cast<size_t>(bytes));
  return p;
}

StatusOr<void *> DeviceSide::event() {
  void *e = nullptr;
  TRY(deviceStatus(functions.eventCreate(&e)));
  events.push_back(e);
  return e;
}

Status DeviceSide::copyNow(void *dst, const void *src, int64_t bytes) const {
  TRY(use());
  if (functions.order) { // between updates
    functions.order->awaited(nullptr, 0, copying);
    functions.order->label("", "copy by the host");
  }
  TRY(deviceStatus(functions.copy(dst, src, static_cast<size_t>(bytes), copying)));
  if (functions.order)
    functions.order->label("", "");
  TRY(deviceStatus(functions.streamSync(copying)));
  settled();
  return {};
}

void DeviceSide::settled() const {
  if (functions.order)
    functions.order->reached(this, 0);
}

void DeviceSide::begin() const {
  if (functions.order)
    functions.order->awaited(this, 0, nullptr);
}

} // namespace ds
