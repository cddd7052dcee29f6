// SPDX-License-Identifier: Apache-2.0
#include "runtime/CommDevice.h"

#include "runtime/CommSum.h"

namespace ds {

namespace {

struct DeviceGroup final : ThreadGroup {
  using ThreadGroup::ThreadGroup;
  std::vector<void *> events =
      std::vector<void *>(static_cast<size_t>(world)); // of the meeting under way
};

} // namespace

static DeviceGroup &of(const std::shared_ptr<ThreadGroup> &g) {
  return static_cast<DeviceGroup &>(*g);
}

Status DeviceComm::prepare(int64_t stagingBytes) {
  if (group->world > 1)
    TRY(deviceStatus(side->api().peers(me, group->world)));
  if (stagingBytes > 0) {
    TRY_ASSIGN(staging, side->allocate(stagingBytes, 0));
  }
  TRY_ASSIGN(ready, side->event());
  TRY_ASSIGN(through, side->event());
  sources.resize(static_cast<size_t>(group->world));
  return {};
}

bool DeviceComm::ok(const char *m) {
  if (m)
    failed = m;
  return !m;
}

// The comm stream goes on once all ranks' comm streams have got here.
bool DeviceComm::meetStreams(void *event) {
  void *stream = side->stream(Stream::Comm);
  if (!ok(side->api().eventRecord(event, stream)))
    return false;
  std::vector<void *> &events = of(group).events;
  events[static_cast<size_t>(me)] = event;
  if (!group->meeting.arrive(group->abort))
    return false;
  for (int r = 0; r < group->world; ++r)
    if (r != me && !ok(side->api().eventWait(stream, events[static_cast<size_t>(r)])))
      return false;
  return group->meeting.arrive(group->abort); // nobody records anew before all wait
}

bool DeviceComm::run(size_t i) {
  const CommOp &op = mine(i);
  const DsDeviceApi &api = side->api();
  void *stream = side->stream(Stream::Comm);
  int64_t slice = op.elems / group->world, size = byteSize(op.dtype);
  if (!meetStreams(ready))
    return false;
  if (op.kind == InstrKind::AllGather) {
    // Start with the next rank, so that not all read the same one.
    for (int k = 0; k < group->world; ++k) {
      int from = (me + k) % group->world;
      auto *to = static_cast<std::byte *>(op.dst) + from * slice * size;
      const void *src = peer(from, i).src;
      if (src != to && !ok(api.copy(to, src, static_cast<size_t>(slice * size), stream)))
        return false;
    }
  } else {
    bool whole = op.kind == InstrKind::AllReduce;
    int64_t at = whole ? 0 : me * slice * size;
    for (int r = 0; r < group->world; ++r)
      sources[static_cast<size_t>(r)] = static_cast<const std::byte *>(peer(r, i).src) + at;
    if (!ok(api.sum(whole ? staging : op.dst, sources.data(), group->world,
                    whole ? op.elems : slice, static_cast<uint8_t>(op.dtype), stream)))
      return false;
  }
  ++calls[i];
  if (!meetStreams(through))
    return false;
  // Everybody has read every source: now an in-place result may replace it.
  return op.kind != InstrKind::AllReduce ||
         ok(api.copy(op.dst, staging, static_cast<size_t>(op.elems * byteSize(sumType(op.dtype))),
                     stream));
}

std::vector<std::unique_ptr<DeviceComm>> makeDeviceComms(int world, Abort &abort) {
  auto group = std::make_shared<DeviceGroup>(world, abort);
  std::vector<std::unique_ptr<DeviceComm>> out;
  for (int r = 0; r < world; ++r)
    out.push_back(std::make_unique<DeviceComm>(group, r));
  return out;
}

} // namespace ds
