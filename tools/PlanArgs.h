// SPDX-License-Identifier: Apache-2.0
//
// The planning flags of dsplan and dsexec, and the way from a model file to a verified schedule.
#pragma once

#include "passes/PassManager.h"
#include "passes/Passes.h"
#include "tools/ImportTool.h"
#include "tools/PlanRecompute.h"

#include "llvm/Support/CommandLine.h"

#include <algorithm>
#include <optional>

namespace ds {

/// What loadModel was asked for.
struct ModelRequest {
  std::string path;
  bool forExec = false, wantEval = false;
  std::optional<int64_t> updates;
};

/// How far a choice may be from the best one: its time, and one that no choice under the same limits beats.
struct PlanGap {
  double seconds = 0, bound = 0; // of an update
  std::string rates;             // whose they are
  double part() const { return seconds > 0 ? std::max(0.0, 1 - bound / seconds) : 0; }
};

/// A plan that was made while its config was chosen. plan() hands it out, once.
struct FoundPlan {
  PlanConfig config;
  int threads = 0;
  std::optional<RecomputePlan> plan;
};

/// A model as read, before any pass, with everything that was asked for or assumed.
struct LoadedModel {
  std::unique_ptr<Module> module;
  PlanConfig config;
  ImportReport report; // of an ONNX model
  double importMs = 0;
  ModelRequest request;
  std::optional<PlanGap> gap; // with --offload auto and a limit
  std::shared_ptr<FoundPlan> found;

  /// Its config is complete, and p is what it plans.
  void keep(RecomputePlan p);
};

/// KEY=VALUE of --set.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Groups of the flags in --help.
llvm::cl::OptionCategory &planCategory();
llvm::cl::OptionCategory &passCategory();

/// Reads model and config as the flags say. forExec: loss, optimizer and batch must be given; otherwise they
/// are assumed, and config.assumptions says so. wantEval: with a program eval, whatever the config says.
/// updates: of the run, for a scheduler's total_num_steps that is "auto".
StatusOr<LoadedModel> loadModel(const std::string &path, bool forExec, bool wantEval = false,
                                const std::optional<int64_t> &updates = {});

/// The same model as if the command line ended with these settings, too. It is read again only if the micro-batch is one of
/// them.
StatusOr<LoadedModel> loadWith(const LoadedModel &model, const Settings &more);

/// The config of flags and file, without a model. assume: as in ConfigOverrides; more: as if --set gave them last.
StatusOr<PlanConfig> configFromFlags(const std::optional<int64_t> &updates, bool assume,
                                     const Settings &more = {});

/// Runs these passes as the flags say; whether a schedule is asked for then, and not --stop-after.
StatusOr<bool> runPipeline(Module &m, const PlanConfig &c, const std::vector<std::string> &flags);

/// Whether --target is "list", which asks for what can be named there.
bool asksForTargets();

/// --print-*, --stop-after, --verify-each, --opt-bisect-limit.
PassOptions passOptions();

/// Threads of each rank's kernels where none are given.
int threadsOfRank(const PlanConfig &c);

/// Runs the pipeline on a copy of the model. threads: of each rank's kernels, for workspace; 0: cores / ranks.
/// If module is given it receives the module after the passes. Whether it fits: checkFits (Fit.h).
StatusOr<Schedule> plan(const LoadedModel &model, const PlanConfig &config, int threads = 0,
                        std::unique_ptr<Module> *module = nullptr);

/// The whole way, for dsexec: MODEL.onnx, MODEL.onnxtext, MODEL.dsir or PLAN.dsched. Planning flags with
/// a .dsched are refused. reference, if asked for: the same training at stage 0 on one rank, in micro-batches of the same
/// size and order; stays empty for a .dsched. report, if asked for: of the import of an ONNX model.
StatusOr<Schedule> planFromArgs(const std::string &path, int threads, PlanConfig &config,
                                bool wantEval = false, std::optional<Schedule> *reference = nullptr,
                                const std::optional<int64_t> &updates = {},
                                ImportReport *report = nullptr);

} // namespace ds
