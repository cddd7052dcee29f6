// SPDX-License-Identifier: Apache-2.0
//
// Gradients against central differences of the loss, in f64 on one rank: they do not depend on autodiff.
#pragma once

#include "test/property/Check.h"

namespace ds::property {

/// The slope of the first micro-batch's loss along random directions, one through all parameters and one through each of
/// the first few.
Failure checkGradients(const Case &c, const Device &device);

} // namespace ds::property
