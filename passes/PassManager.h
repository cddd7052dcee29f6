// SPDX-License-Identifier: Apache-2.0
//
// Runs passes of Passes.def on a module, with contracts, printing, verification and bisecting.
#pragma once

#include "frontend/Config.h"
#include "ir/Graph.h"

#include "llvm/Support/raw_ostream.h"

namespace ds {

using PassFn = Status (*)(Module &, const PlanConfig &);

/// Facts about a module that passes require and provide; derived from the module, not recorded.
enum class Fact : uint8_t { None, Loss, Grads, Buckets, Optimizer, Placed, Programs, Forward };
bool holds(Fact f, const Module &m);

struct PassInfo {
  const char *flag;
  PassFn fn;
  Fact requires_, provides;
  const char *summary;
};
const std::vector<PassInfo> &passTable();

struct PassOptions {
  std::vector<std::string> printBefore, printAfter; // pass flags, or "all"
  std::string stopAfter;                            // run up to and including this pass
  bool verifyEach = false;
  int64_t bisectLimit =
      -1;            // run only the first n of the optional passes (those that provide no fact)
  bool repro = true; // internal errors carry the module before the pass
  llvm::raw_ostream *out = nullptr; // where --print-* goes

  /// Whether anything but the last module is asked for.
  bool watches() const {
    return !printBefore.empty() || !printAfter.empty() || !stopAfter.empty() || verifyEach ||
           bisectLimit >= 0;
  }
};

/// The last note of an internal error starts so, and goes on with the flags and the module before the pass:
/// text for a file that dsopt can run again.
inline constexpr char kReproNote[] = "// RUN: dsopt %s ";

/// Runs the named passes in order. Errors name the pass; internal ones carry the module before it.
Status runPasses(Module &m, const PlanConfig &c, const std::vector<std::string> &flags,
                 const PassOptions &o);
/// For training: the passes of the table but its FORWARD_PASS rows.
std::vector<std::string> defaultPipeline();
/// For one run of the model: a program `forward` that returns its outputs, or, for vjp, gradients.
std::vector<std::string> forwardPipeline(bool vjp);

} // namespace ds
