// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are processes, on one machine or several: each has a connection to rank 0, which passes everything on. A thread looks
// at the connections, and aborts the job once a process is gone, so that nobody waits for it.
#pragma once

#include "runtime/Exchange.h"

namespace ds {

/// Where and as whom a process takes part in a run.
struct Membership {
  int rank = -1; // -1: all ranks are threads of this process
  int world = 1;
  int device = 0;      // the rank's, on its machine
  std::string address; // of rank 0
  int port = 0;
};

/// Waits at most `seconds` until all have come. `abort` must outlive the result.
StatusOr<std::unique_ptr<Exchange>> joinProcesses(const Membership &m, Abort &abort,
                                                  double seconds);

} // namespace ds
