// SPDX-License-Identifier: Apache-2.0
#include "test/property/Train.h"

#include "ir/GraphText.h"
#include "passes/PassManager.h"
#include "passes/Passes.h"
#include "runtime/Checkpoint.h"
#include "runtime/Trainer.h"

#include <filesystem>
#include <stdlib.h>

namespace ds::property {

static StatusOr<Schedule> planVerified(Module &m, const PlanConfig &c, bool throughText) {
  PassOptions o;
  o.verifyEach = true;
  TRY(runPasses(m, c, defaultPipeline(), o));
  TRY(verifyModule(m));
  TRY_ASSIGN(Schedule s, scheduleModule(m, c));
  TRY(verifySchedule(s));
  if (!throughText)
    return s;
  std::string text = printSchedule(s);
  TRY_ASSIGN(Schedule again, parseSchedule(text, "printed.dsched"));
  if (printSchedule(again) != text)
    return Status::internal("the printed schedule does not read back to itself");
  return again;
}

namespace {

/// A folder that goes with its owner.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "property-XXXXXX").string();
    path = mkdtemp(pattern.data()) ? pattern : "";
  }
  ~TemporaryFolder() {
    std::error_code e;
    if (!path.empty())
      std::filesystem::remove_all(path, e);
  }
  std::string path;
};

} // namespace

// Saves, and goes on in a new trainer from what was saved.
static StatusOr<std::unique_ptr<Trainer>> resumed(std::unique_ptr<Trainer> t, const Device &device,
                                                  RunOptions o) {
  TemporaryFolder folder;
  TRY(t->saveCheckpoint(folder.path));
  TRY_ASSIGN(o.resume, newestCheckpoint(folder.path));
  Schedule s = t->schedule();
  t.reset();
  return Trainer::create(std::move(s), device, o);
}

StatusOr<Trained> train(Module &m, const PlanConfig &c, const RunSetup &setup,
                        const Device &device) {
  TRY_ASSIGN(Schedule s, planVerified(m, c, setup.throughText));
  RunOptions o;
  o.data = "synthetic:" + std::to_string(setup.dataSeed);
  o.threads = 1;
  o.arenaFill = setup.arenaFill;
  TemporaryFolder disk;
  o.nvmePath = disk.path;
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(std::move(s), device, o));
  Trained run;
  for (int u = 0; u < setup.updates; ++u) {
    TRY_ASSIGN(UpdateResult r, t->step());
    run.losses.push_back(r.loss);
    run.norms.push_back(r.gradNorm);
    run.clips.push_back(r.clipFactor);
    run.rates.push_back(r.lr);
    run.scales.push_back(r.lossScale);
    run.skipped |= r.skipped;
    if (u + 1 == setup.resumeAt) {
      TRY_ASSIGN(t, resumed(std::move(t), device, o));
    }
  }
  for (const BucketInfo &b : t->schedule().buckets)
    for (const SegmentInfo &g : b.segments) {
      TRY_ASSIGN(run.weights[g.param], t->readParam(g.param));
    }
  return run;
}

} // namespace ds::property
