// SPDX-License-Identifier: Apache-2.0
//
// The `local` engine: ranks are threads that read each other's arenas. Every collective is: meet (all sources
// are ready), read the peers, meet (nobody reads any more). No memory but a small block per rank is used.
#include "runtime/CommSum.h"
#include "runtime/CommThreads.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace ds {

namespace {

class LocalComm final : public ThreadComm {
public:
  LocalComm(std::shared_ptr<ThreadGroup> g, int rank, const LocalCommOptions &o)
      : ThreadComm(std::move(g), rank), options(o) {}

  bool run(size_t i) override {
    if (!group->meeting.arrive(group->abort))
      return false;
    auto start = std::chrono::steady_clock::now();
    const CommOp &op = mine(i);
    switch (op.kind) {
    case InstrKind::AllGather:
      gather(i);
      break;
    case InstrKind::ReduceScatter:
      reduceScatter(i);
      break;
    default:
      allReduce(i);
      break;
    }
    ++calls[i];
    if (options.bytesPerSecond > 0) {
      auto bytes =
          static_cast<double>(sentElems(op.kind, op.elems, group->world) * byteSize(op.dtype));
      std::chrono::duration<double> transfer(bytes / options.bytesPerSecond);
      sleepUntil(start + std::chrono::duration_cast<std::chrono::nanoseconds>(transfer));
    }
    if (!group->meeting.arrive(group->abort))
      return false;
    // Everybody has read every source: now an in-place result may replace it.
    if (op.kind == InstrKind::AllReduce)
      std::memcpy(op.dst, reduced.data(),
                  static_cast<size_t>(op.elems * byteSize(sumType(op.dtype))));
    return true;
  }

private:
  Status prepare(int64_t stagingBytes) override {
    reduced.resize(static_cast<size_t>(stagingBytes));
    sources.resize(static_cast<size_t>(group->world));
    return {};
  }

  void sleepUntil(std::chrono::steady_clock::time_point end) const {
    using namespace std::chrono_literals;
    while (!group->abort.raised() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_until(std::min(end, std::chrono::steady_clock::now() + 20ms));
  }

  void gather(size_t i) {
    const CommOp &op = mine(i);
    int64_t bytes = op.elems / group->world * byteSize(op.dtype);
    // Start with the next rank, so that not all read the same one.
    for (int k = 0; k < group->world; ++k) {
      int from = (me + k) % group->world;
      auto *to = static_cast<std::byte *>(op.dst) + from * bytes;
      if (const void *src = peer(from, i).src; src != to)
        std::memcpy(to, src, static_cast<size_t>(bytes));
    }
  }

  void reduceScatter(size_t i) {
    const CommOp &op = mine(i);
    int64_t slice = op.elems / group->world, at = me * slice * byteSize(op.dtype);
    for (int r = 0; r < group->world; ++r)
      sources[static_cast<size_t>(r)] = static_cast<const std::byte *>(peer(r, i).src) + at;
    sumInOrder(op.dtype, sources.data(), group->world, op.dst, slice);
  }

  void allReduce(size_t i) {
    const CommOp &op = mine(i);
    for (int r = 0; r < group->world; ++r)
      sources[static_cast<size_t>(r)] = peer(r, i).src;
    sumInOrder(op.dtype, sources.data(), group->world, reduced.data(), op.elems);
  }

  LocalCommOptions options;
  std::vector<std::byte> reduced; // an all_reduce's result until all have read its sources
  std::vector<const void *> sources;
};

} // namespace

std::vector<std::unique_ptr<Comm>> makeLocalComms(int world, Abort &abort,
                                                  const LocalCommOptions &o) {
  auto group = std::make_shared<ThreadGroup>(world, abort);
  std::vector<std::unique_ptr<Comm>> out;
  for (int r = 0; r < world; ++r)
    out.push_back(std::make_unique<LocalComm>(group, r, o));
  return out;
}

} // namespace ds
