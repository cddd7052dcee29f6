// SPDX-License-Identifier: Apache-2.0
//
// What every rank of a run must have alike. Ranks compare it before the first update, and refuse to start with the
// name of the first part that differs: a rank with another plan would hang in a collective, or train another model.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// FNV-1a, 64 bits; chain calls through `h`.
uint64_t hashBytes(const void *bytes, size_t n, uint64_t h = 0xcbf29ce484222325u);

struct RunIdentity {
  struct Part {
    std::string what; // "schedule", "weights in model.onnx.data", "run options"
    uint64_t hash = 0;
  };
  std::vector<Part> parts;
};

/// The schedule's text, each weight file's size and 64 blocks spread over it (a rank reads only its own ranges), and
/// `options`, any text that ranks must share, such as the data's spec and seed.
StatusOr<RunIdentity> identityOf(const Schedule &s, const std::string &options);

/// What a rank says whose identity is not the first's: names the part, the change that helps. Ok if they agree.
Status compareIdentity(const RunIdentity &first, const RunIdentity &own);

} // namespace ds
