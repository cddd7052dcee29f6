// SPDX-License-Identifier: Apache-2.0
#include "runtime/CommThreads.h"

#include "runtime/CommSum.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

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

bool ThreadComm::meet(bool ok) {
  group->oks[static_cast<size_t>(me)] = ok;
  if (!group->outside.arrive(group->abort))
    return false;
  bool all = std::all_of(group->oks.begin(), group->oks.end(), [](char c) { return c != 0; });
  return group->outside.arrive(group->abort) &&
         all; // nobody changes an answer before all have read
}

Status checkOps(const std::vector<CommOp> &ops, int world) {
  for (const CommOp &op : ops) {
    bool sums = op.kind != InstrKind::AllGather;
    if (sums && !canSum(op.dtype))
      return Status::error(
          fmt::format("{}: sums of {} are not supported, expected a float type or i64", op.label,
                      text(op.dtype)));
    if (op.kind != InstrKind::AllReduce && op.elems % world != 0)
      return Status::internal(
          fmt::format("{}: {} elements do not split over {} ranks", op.label, op.elems, world));
  }
  return {};
}

Status ThreadComm::bind(std::vector<CommOp> ops, const RunIdentity &identity) {
  TRY(checkOps(ops, group->world));
  int64_t staging = 0;
  for (const CommOp &op : ops)
    if (op.kind == InstrKind::AllReduce)
      staging = std::max(staging, op.elems * byteSize(sumType(op.dtype)));
  TRY(prepare(staging));
  calls.assign(ops.size(), 0);
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

std::vector<CommTraffic> trafficOf(const std::vector<CommOp> &ops,
                                   const std::vector<int64_t> &calls, int world) {
  std::map<std::pair<std::string, InstrKind>, CommTraffic> sums;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CommOp &op = ops[i];
    CommTraffic &t = sums[{op.bucket, op.kind}];
    t.bucket = op.bucket;
    t.kind = op.kind;
    int64_t elems = calls[i] * sentElems(op.kind, op.elems, world);
    t.calls += calls[i];
    t.elems += elems;
    t.bytes += elems * byteSize(op.dtype);
  }
  std::vector<CommTraffic> out;
  for (auto &[key, t] : sums)
    out.push_back(std::move(t));
  return out;
}

std::vector<CommTraffic> ThreadComm::traffic() const {
  return trafficOf(group->ops[static_cast<size_t>(me)], calls, group->world);
}

} // namespace ds
