// SPDX-License-Identifier: Apache-2.0
//
// One micro-batch as recomputation sees it: launches, the storages they read and write, and how many bytes are live at each
// launch for any set of launches that backward repeats. It follows recomputeOps: a repeated launch stands before the
// first one that needs it.
#pragma once

#include "ir/Graph.h"
#include "ir/Schedule.h"
#include "passes/Cost.h"

namespace ds {

struct RecomputeModel {
  struct Launch {
    Op *op = nullptr;
    bool repeatable = false;       // canRecompute
    llvm::SmallVector<int, 3> in;  // storages, each once
    llvm::SmallVector<int, 2> out; // the same
    llvm::SmallVector<int, 2>
        over; // of in: as large as the first of out, which may take over one that ends here
    double seconds = 0;
    double gather = 0; // of weights that it reads first in its phase
    int64_t work = 0;  // bytes of workspace
  };
  struct Storage {
    int64_t bytes = 0; // rounded up as in an arena
    int maker = 0;     // launch
    llvm::SmallVector<int, 4> users;
    bool isMoved = false; // not on the device between its last use in forward and the next
  };
  std::vector<Launch> launches; // all ops but views, in program order
  std::vector<Storage> storages;
  int firstBackward = 0;
  /// By launch: bytes that live at it beside the storages (gradients, gathered parameters, workspace).
  std::vector<int64_t> beside;

  RecomputeModel() = default;
  /// p: @micro behind autodiff. s: a plan of it without recomputation, which says how long launches take and what is moved.
  RecomputeModel(Program &p, const Schedule &s, const Rates &r);
  /// Sets `beside` as s has it, once its buffers have lives.
  void readMemory(const Schedule &s);

  struct Load {
    std::vector<int64_t> at; // by launch: most bytes at it and at what is repeated right before it
    double seconds = 0;      // of what is repeated
    std::vector<bool> isRepeated; // by launch; no more than was asked for
    int64_t peak() const;
  };
  /// again: by launch, of the forward phase.
  Load load(const std::vector<bool> &again) const;

private:
  void addLaunches(Program &p);
  void readTimes(const Schedule &s, const Rates &r);
  void readGathers(const Schedule &s, const SchedProgram &p, const Rates &r);
  void readMoves(const Schedule &s);
};

} // namespace ds
