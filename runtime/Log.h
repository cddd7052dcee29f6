// SPDX-License-Identifier: Apache-2.0
//
// What a run shows: on a terminal one live line, else a plain line every few updates; a JSON object per update
// in a file; a summary at the end.
#pragma once

#include "runtime/Trainer.h"

#include <chrono>
#include <cstdio>

namespace ds {

struct LogOptions {
  std::FILE *out = nullptr; // lines; null: none
  bool terminal = false;    // out is one: a live line
  int64_t linesEvery = 10;  // updates per plain line; 0: the first and the last only
  int64_t totalUpdates = 0;
  int64_t firstUpdate = 0; // updates made before; the JSON file keeps its lines up to there
  std::string jsonPath;    // empty: none
};

class RunLog {
public:
  /// The trainer must outlive the log. Makes the JSON file.
  static StatusOr<std::unique_ptr<RunLog>> create(const Trainer &t, const LogOptions &o);
  ~RunLog();

  Status update(const UpdateResult &u);
  Status evaluated(int64_t update, const EvalResult &r);
  /// Ends a live line, so that something else can be printed.
  void endLine();
  /// Updates, tokens per second, memory and traffic, a few lines.
  Status finish();

private:
  RunLog(const Trainer &t, const LogOptions &o) : trainer(t), options(o) {}
  std::string line(const UpdateResult &u, double perSecond) const;
  Status writeJson(const std::string &text);

  const Trainer &trainer;
  LogOptions options;
  std::FILE *json = nullptr;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point lastLive;
  int64_t updates = 0, samples = 0, tokens = 0, skipped = 0;
  double stepMs = 0;
  bool live = false; // the cursor stands behind a live line
};

/// Largest resident set of this process so far, in bytes; 0 if the system does not say.
int64_t peakResidentBytes();
std::string sizeText(int64_t bytes); // "12.3 MiB"

} // namespace ds
