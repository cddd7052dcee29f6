// SPDX-License-Identifier: Apache-2.0
//
// How ranks tell each other small things outside of updates: who is ready, what they will run, where to meet.
#pragma once

#include "runtime/Wait.h"

#include <memory>
#include <string>
#include <vector>

namespace ds {

class Exchange {
public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// All ranks call it, and all get what each gave, by rank. False when the job was aborted.
  virtual bool share(std::string mine, std::vector<std::string> &all) = 0;
  /// This rank is at its end, and waits a while for the others to get there; who goes without is taken for lost.
  virtual void finish() {}
};

/// Ends for ranks that are threads of this process. `abort` must outlive them.
std::vector<std::unique_ptr<Exchange>> makeThreadExchanges(int world, Abort &abort);

} // namespace ds
