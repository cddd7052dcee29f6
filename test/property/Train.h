// SPDX-License-Identifier: Apache-2.0
//
// Runs of the property test: a module under a config on synthetic data, and what came out.
#pragma once

#include "frontend/Config.h"
#include "ir/Graph.h"
#include "runtime/Device.h"

#include <map>

namespace ds::property {

struct Trained {
  std::vector<double> losses, norms, clips, rates, scales; // by update
  bool skipped = false;
  std::map<std::string, std::vector<double>> weights; // by parameter, at the end
};

struct RunSetup {
  int updates = 1;
  uint64_t dataSeed = 1;
  uint8_t arenaFill = 0;    // what memory holds before it is written
  bool throughText = false; // print the schedule and run what is read back
  int resumeAt = 0;         // save after so many updates and go on from the checkpoint; 0: do not
};

/// Plans with the verifier behind every pass, verifies the schedule, runs it. The module is used up.
StatusOr<Trained> train(Module &m, const PlanConfig &c, const RunSetup &setup,
                        const Device &device);

} // namespace ds::property
