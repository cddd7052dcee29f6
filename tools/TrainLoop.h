// SPDX-License-Identifier: Apache-2.0
//
// The loop of dsexec: updates, log, checkpoints, and an orderly end when a signal asks for it.
#pragma once

#include "runtime/Log.h"
#include "runtime/Trainer.h"

namespace ds {

struct TrainLoop {
  int64_t total = 0; // updates, counted from the very start
  int64_t maxSkips = 3;
  std::string checkpointDir; // empty: none
  int64_t saveInterval = 0;  // updates; 0: at the end only
  bool evaluates = false;    // the trainer has data for it
  int64_t evalInterval = 0;  // updates; 0: at the end only
};

/// Trains up to `total`. A checkpoint that cannot be written is told and training goes on; it is an error at the end
/// if the last one is missing. Returns the signal that ended the run after a checkpoint, or 0.
StatusOr<int> train(Trainer &t, RunLog &log, const TrainLoop &o);

/// Installs handlers for SIGINT and SIGTERM: the first one ends the loop after the running update, the second one
/// ends the program.
void catchSignals();

/// The folder that --resume means, or "" to start anew. A folder with checkpoints and no --resume is refused, so
/// that no run is started over by mistake.
StatusOr<std::string> chooseResume(const std::string &dir, const std::string &resume);

} // namespace ds
