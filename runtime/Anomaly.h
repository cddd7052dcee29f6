// SPDX-License-Identifier: Apache-2.0
//
// Finds where a number stops being finite. Works on one rank that executes in list order on one thread, and looks at all
// operands and results of every launch.
//   - The first launch that makes NaN of operands that have none, or an infinity of finite ones. Infinities that a
//     constant brings in, as masks do, are none of its business, and neither is what only passes them on.
#pragma once

#include "runtime/MemoryWatch.h"

namespace ds {

class AnomalyHook final : public InstrHook {
public:
  /// Both must outlive it.
  AnomalyHook(const Schedule &s, const LoadedRank &rank) : s(s), rank(rank) {}

  /// Forgets what was found; the next programs are an update's.
  void beginUpdate();
  const char *beginProgram(const LoadedProgram &p) override;
  const char *before(const LoadedProgram &p, const LoadedInstr &in) override;
  const char *after(const LoadedProgram &p, const LoadedInstr &in) override;

  /// Where it happened, or "": micro-batch, phase, operation, node, the element, and the operands' ranges.
  const std::string &found() const { return text; }
  /// For the earliest of several ranks.
  int64_t at() const { return position; }

private:
  std::string describe(const LoadedProgram &p, const LoadedInstr &in, size_t result,
                       int64_t element) const;

  const Schedule &s;
  const LoadedRank &rank;
  int64_t micro = -1, counted = 0, position = 0;
  bool operandsNan = false, operandsInf = false; // of the launch that runs
  std::string operands;                          // their ranges
  std::string text;
};

} // namespace ds
