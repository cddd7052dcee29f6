// SPDX-License-Identifier: Apache-2.0
//
// The `local` engine: ranks are threads that read each other's arenas. Every collective is: meet (all sources
// are ready), read the peers, meet (nobody reads any more). No memory but a small block per rank is used.
#include "runtime/Comm.h"

#include "runtime/CommSum.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <thread>

namespace ds {

int64_t sentElems(InstrKind kind, int64_t elems, int64_t world) {
  return kind == InstrKind::AllReduce ? elems * (world - 1) : elems / world * (world - 1);
}

uint64_t hashCollectives(const std::vector<CommOp> &ops) {
  uint64_t h = hashBytes(nullptr, 0);
  auto mix = [&](const void *p, size_t n) { h = hashBytes(p, n, h); };
  for (const CommOp &op : ops) {
    mix(&op.kind, sizeof op.kind);
    mix(op.label.c_str(), op.label.size() + 1);
    mix(&op.dtype, sizeof op.dtype);
    mix(&op.elems, sizeof op.elems);
  }
  return h;
}

namespace {

struct Group {
  Group(int world, Abort &abort, const LocalCommOptions &o)
      : world(world), abort(abort), options(o), meeting(static_cast<uint32_t>(world)),
        outside(static_cast<uint32_t>(world)), ops(static_cast<size_t>(world)),
        hashes(static_cast<size_t>(world)), identities(static_cast<size_t>(world)),
        oks(static_cast<size_t>(world)) {}
  int world;
  Abort &abort;
  LocalCommOptions options;
  Barrier meeting, outside;
  std::vector<std::vector<CommOp>> ops; // by rank; constant after bind
  std::vector<uint64_t> hashes;
  std::vector<RunIdentity> identities;
  std::vector<char> oks;
};

class LocalComm final : public Comm {
public:
  LocalComm(std::shared_ptr<Group> g, int rank) : group(std::move(g)), me(rank) {}

  int rank() const override { return me; }
  int world() const override { return group->world; }

  bool meet(bool ok) override {
    group->oks[static_cast<size_t>(me)] = ok;
    if (!group->outside.arrive(group->abort))
      return false;
    bool all = std::all_of(group->oks.begin(), group->oks.end(), [](char c) { return c != 0; });
    return group->outside.arrive(group->abort) &&
           all; // nobody changes an answer before all have read
  }

  Status bind(std::vector<CommOp> ops, const RunIdentity &identity) override {
    int64_t staging = 0;
    for (const CommOp &op : ops) {
      bool sums = op.kind != InstrKind::AllGather;
      if (sums && !canSum(op.dtype))
        return Status::error(
            fmt::format("{}: sums of {} are not supported, expected a float type or i64", op.label,
                        text(op.dtype)));
      if (op.kind != InstrKind::AllReduce && op.elems % group->world != 0)
        return Status::internal(fmt::format("{}: {} elements do not split over {} ranks", op.label,
                                            op.elems, group->world));
      if (op.kind == InstrKind::AllReduce)
        staging = std::max(staging, op.elems * byteSize(sumType(op.dtype)));
    }
    reduced.resize(static_cast<size_t>(staging));
    calls.assign(ops.size(), 0);
    sources.resize(static_cast<size_t>(group->world));
    auto self = static_cast<size_t>(me);
    group->hashes[self] = hashCollectives(ops);
    group->ops[self] = std::move(ops);
    group->identities[self] = identity;
    if (!meet(true))
      return stoppedByOther();
    TRY(compareIdentity(group->identities[0], identity));
    if (group->hashes[self] != group->hashes[0])
      return Status::internal("its sequence of collectives differs from rank 0's");
    return {};
  }

  bool run(size_t i) override {
    if (!group->meeting.arrive(group->abort))
      return false;
    auto start = std::chrono::steady_clock::now();
    const CommOp &op = mine()[i];
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
    if (group->options.bytesPerSecond > 0) {
      auto bytes =
          static_cast<double>(sentElems(op.kind, op.elems, group->world) * byteSize(op.dtype));
      std::chrono::duration<double> transfer(bytes / group->options.bytesPerSecond);
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

  std::vector<CommTraffic> traffic() const override {
    std::map<std::pair<std::string, InstrKind>, CommTraffic> sums;
    for (size_t i = 0; i < calls.size(); ++i) {
      const CommOp &op = mine()[i];
      CommTraffic &t = sums[{op.bucket, op.kind}];
      t.bucket = op.bucket;
      t.kind = op.kind;
      int64_t elems = calls[i] * sentElems(op.kind, op.elems, group->world);
      t.calls += calls[i];
      t.elems += elems;
      t.bytes += elems * byteSize(op.dtype);
    }
    std::vector<CommTraffic> out;
    for (auto &[key, t] : sums)
      out.push_back(std::move(t));
    return out;
  }

private:
  const std::vector<CommOp> &mine() const { return group->ops[static_cast<size_t>(me)]; }
  const CommOp &peer(int rank, size_t i) const { return group->ops[static_cast<size_t>(rank)][i]; }

  void sleepUntil(std::chrono::steady_clock::time_point end) const {
    using namespace std::chrono_literals;
    while (!group->abort.raised() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_until(std::min(end, std::chrono::steady_clock::now() + 20ms));
  }

  void gather(size_t i) {
    const CommOp &op = mine()[i];
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
    const CommOp &op = mine()[i];
    int64_t slice = op.elems / group->world, at = me * slice * byteSize(op.dtype);
    for (int r = 0; r < group->world; ++r)
      sources[static_cast<size_t>(r)] = static_cast<const std::byte *>(peer(r, i).src) + at;
    sumInOrder(op.dtype, sources.data(), group->world, op.dst, slice);
  }

  void allReduce(size_t i) {
    const CommOp &op = mine()[i];
    for (int r = 0; r < group->world; ++r)
      sources[static_cast<size_t>(r)] = peer(r, i).src;
    sumInOrder(op.dtype, sources.data(), group->world, reduced.data(), op.elems);
  }

  std::shared_ptr<Group> group;
  int me;
  std::vector<std::byte> reduced; // an all_reduce's result until all have read its sources
  std::vector<const void *> sources;
  std::vector<int64_t> calls;
};

} // namespace

std::vector<std::unique_ptr<Comm>> makeLocalComms(int world, Abort &abort,
                                                  const LocalCommOptions &o) {
  auto group = std::make_shared<Group>(world, abort, o);
  std::vector<std::unique_ptr<Comm>> out;
  for (int r = 0; r < world; ++r)
    out.push_back(std::make_unique<LocalComm>(group, r));
  return out;
}

} // namespace ds
