// SPDX-License-Identifier: Apache-2.0
//
// dsexec --forward, --vjp and --generate: running a model without training, arrays in and arrays or text out.
#pragma once

#include "ir/Status.h"

#include "llvm/Support/CommandLine.h"

#include <optional>
#include <string>

namespace ds {

/// Group of the flags in --help.
llvm::cl::OptionCategory &forwardCategory();

/// Whether --forward, --vjp or --generate is given; an error if only flags are that belong to these.
StatusOr<bool> asksForForward();

/// Runs it. device, threads and seed: as of dsexec's flags.
Status runForward(const std::string &path, const std::string &device, int threads,
                  std::optional<int64_t> seed);

} // namespace ds
