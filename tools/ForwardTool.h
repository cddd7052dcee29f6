// SPDX-License-Identifier: Apache-2.0
//
// dsexec --forward and --vjp: one run of a model, arrays in and arrays out, without training.
#pragma once

#include "ir/Status.h"

#include "llvm/Support/CommandLine.h"

#include <string>

namespace ds {

/// Group of the flags in --help.
llvm::cl::OptionCategory &forwardCategory();

/// Whether --forward or --vjp is given; an error if only flags are that belong to these.
StatusOr<bool> asksForForward();

/// Runs it. device and threads: as of dsexec's flags.
Status runForward(const std::string &path, const std::string &device, int threads);

} // namespace ds
