// SPDX-License-Identifier: Apache-2.0
//
// dsexec --measure-target: this machine as a target, measured on small trainings.
#pragma once

#include "ir/Status.h"

#include <string>

namespace ds {

/// Whether --measure-target is given; an error if flags are that would mean nothing to it.
StatusOr<bool> asksForMeasure();

/// Trains measureModels() on so many ranks as --world-size says (default: 1), and writes the file.
Status runMeasure(const std::string &device, int threads);

} // namespace ds
