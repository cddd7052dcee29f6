// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a vendor's library (NCCL), between devices of this process or of others. run() enqueues on the comm stream. A
// thread per rank looks for errors, and ends what is enqueued once the job is aborted, so that nobody waits for a rank
// that is gone.
#pragma once

#include "runtime/Comm.h"
#include "runtime/CommSteps.h"
#include "runtime/DeviceSide.h"
#include "runtime/Exchange.h"

#include <mutex>
#include <thread>

namespace ds {

class NcclComm final : public Comm {
public:
  /// `abort` must outlive it.
  NcclComm(std::unique_ptr<Exchange> e, Abort &abort, bool exact)
      : others(std::move(e)), abort(abort), exact(exact) {}
  ~NcclComm() override { close(); }

  void attach(DeviceSide &d) override { side = &d; }
  int rank() const override { return others->rank(); }
  int world() const override { return others->world(); }
  Status bind(std::vector<CommOp> ops, const RunIdentity &identity) override;
  bool run(size_t i) override;
  const char *message() const override { return failed.empty() ? Comm::message() : failed.c_str(); }
  bool meet(bool ok) override;
  std::vector<CommTraffic> traffic() const override { return trafficOf(ops, calls, world()); }
  void close() override;

private:
  Status compare(const RunIdentity &identity, std::string *id);
  Status connect(const std::string &id);
  const char *begin(const CommStep &s);
  bool execute(const CommStep &s);
  void watch();
  const DsCommApi &api() const { return *side->api().comm; }

  std::unique_ptr<Exchange> others;
  Abort &abort;
  const bool exact;
  DeviceSide *side = nullptr;
  std::vector<CommOp> ops;
  std::vector<std::vector<CommStep>> steps; // by op
  std::vector<int64_t> calls;               // by op

  std::mutex mutex; // of the communicator: the rank's thread and the watching one use it
  void *comm = nullptr;
  bool ended = false;           // by abort: nothing may be called any more
  const CommOp *last = nullptr; // enqueued
  std::string failed;           // what went wrong in run()
  std::thread watcher;
  Counter closing;
};

} // namespace ds
