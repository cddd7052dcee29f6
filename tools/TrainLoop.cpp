// SPDX-License-Identifier: Apache-2.0
#include "tools/TrainLoop.h"

#include "runtime/Checkpoint.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <filesystem>
#include <fmt/format.h>

namespace ds {

static volatile std::sig_atomic_t caught = 0;

void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int which) {
    caught = which;
    signal(SIGINT, SIG_DFL); // the second one, whichever it is
    signal(SIGTERM, SIG_DFL);
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

namespace {

class Saver {
public:
  Saver(Trainer &t, RunLog &log, const std::string &dir)
      : trainer(t), log(log), dir(dir), saved(t.updates()) {}

  /// The last try's error is kept for the end.
  void save() {
    if (dir.empty() || saved == trainer.updates())
      return;
    status = trainer.saveCheckpoint(dir);
    log.endLine();
    if (status.ok()) {
      saved = trainer.updates();
      llvm::outs() << "saved update " << saved << " in " << dir << "\n";
    } else {
      llvm::errs() << "dsexec: warning: update " << trainer.updates()
                   << " could not be saved; training goes on\n"
                   << status.str();
    }
    llvm::outs().flush();
  }
  Status last() { return std::move(status); }

private:
  Trainer &trainer;
  RunLog &log;
  std::string dir;
  int64_t saved;
  Status status;
};

} // namespace

static Status notFinite(const UpdateResult &u, int64_t inARow) {
  if (!u.anomaly.empty())
    return Status::error(fmt::format("update {}: a number is not finite", u.update))
        .note("the first: " + u.anomaly);
  return Status::error(
             fmt::format("update {}: {} updates in a row were skipped, because gradients are "
                         "infinite or NaN",
                         u.update, inARow))
      .note("the same run with --detect-anomaly names the first operation whose result is not "
            "finite; a smaller "
            "learning rate may help, --max-skips N allows more");
}

StatusOr<int> train(Trainer &t, RunLog &log, const TrainLoop &o) {
  Saver saver(t, log, o.checkpointDir);
  int64_t inARow = 0, evaluatedAt = -1;
  auto evaluate = [&]() -> Status {
    if (!o.evaluates || evaluatedAt == t.updates())
      return {};
    evaluatedAt = t.updates();
    TRY_ASSIGN(EvalResult r, t.evaluate());
    return log.evaluated(t.updates(), r);
  };
  while (t.updates() < o.total && !caught) {
    TRY_ASSIGN(UpdateResult u, t.step());
    TRY(log.update(u));
    if (!u.scaleFalls) // an update that a smaller loss scale may make good is no bad sign
      inARow = u.skipped ? inARow + 1 : 0;
    bool isNamed = u.skipped && !u.scaleFalls && !u.anomaly.empty();
    if (isNamed || inARow >= o.maxSkips) {
      saver.save(); // no skipped update has changed anything
      return notFinite(u, inARow);
    }
    if (o.evalInterval > 0 && u.update % o.evalInterval == 0)
      TRY(evaluate());
    if (o.saveInterval > 0 && u.update % o.saveInterval == 0)
      saver.save();
  }
  TRY(t.finish());
  saver.save();
  TRY(saver.last());
  if (!caught)
    TRY(evaluate());
  return int(caught);
}

StatusOr<std::string> chooseResume(const std::string &dir, const std::string &resume) {
  if (dir.empty())
    return resume.empty() ? StatusOr<std::string>("")
                          : Status::error("--resume needs --checkpoint-dir, where checkpoints are");
  TRY_ASSIGN(std::string newest, newestCheckpoint(dir));
  if (resume == "auto")
    return newest;
  if (resume.empty())
    return newest.empty()
               ? StatusOr<std::string>("")
               : Status::error(dir + " holds checkpoints, the newest is " + newest)
                     .note("--resume auto goes on from there; to start anew give another folder");
  std::string folder = (std::filesystem::path(dir) / resume).string();
  std::error_code e;
  if (std::filesystem::exists(folder, e))
    return folder;
  return Status::error("there is no checkpoint " + resume + " in " + dir +
                       (newest.empty() ? "" : "; the newest is " + newest));
}

} // namespace ds
