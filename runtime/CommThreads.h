// SPDX-License-Identifier: Apache-2.0
//
// What engines whose ranks are threads of one process share: the lists of all ranks in one place, meetings, counts of what
// was sent.
#pragma once

#include "runtime/Comm.h"

namespace ds {

struct ThreadGroup {
  ThreadGroup(int world, Abort &abort)
      : world(world), abort(abort), meeting(static_cast<uint32_t>(world)),
        outside(static_cast<uint32_t>(world)), ops(static_cast<size_t>(world)),
        hashes(static_cast<size_t>(world)), identities(static_cast<size_t>(world)),
        oks(static_cast<size_t>(world)) {}
  int world;
  Abort &abort;
  Barrier meeting, outside;             // within collectives; between them
  std::vector<std::vector<CommOp>> ops; // by rank; constant after bind
  std::vector<uint64_t> hashes;
  std::vector<RunIdentity> identities;
  std::vector<char> oks;
};

class ThreadComm : public Comm {
public:
  ThreadComm(std::shared_ptr<ThreadGroup> g, int rank) : group(std::move(g)), me(rank) {}
  int rank() const override { return me; }
  int world() const override { return group->world; }
  bool meet(bool ok) override;
  Status bind(std::vector<CommOp> ops, const RunIdentity &identity) override;
  std::vector<CommTraffic> traffic() const override;

protected:
  /// Before anything runs: an all_reduce needs at most that much beside its operands.
  virtual Status prepare(int64_t stagingBytes) = 0;
  const CommOp &peer(int rank, size_t i) const { return group->ops[static_cast<size_t>(rank)][i]; }
  const CommOp &mine(size_t i) const { return peer(me, i); }

  std::shared_ptr<ThreadGroup> group;
  int me;
  std::vector<int64_t> calls; // by op
};

} // namespace ds
