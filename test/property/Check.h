// SPDX-License-Identifier: Apache-2.0
//
// The property: a case plans, its schedules verify, and training gives
//   - under `config` and `partner` the same bits: losses, norms, weights; the partner of odd seeds goes on from a
//     checkpoint;
//   - in f64, to rounding, what one rank at stage 0 gets from the whole batch at once;
//   - gradients that central differences of the loss confirm.
#pragma once

#include "runtime/Device.h"
#include "test/property/Case.h"

namespace ds::property {

struct Failure {
  std::string kind; // empty: none. plan, run, finite, bits, reference or gradient
  std::string text;
  explicit operator bool() const { return !kind.empty(); }
};

/// The device as a parameter: tests damage one to see that the damage is found.
Failure check(const Case &c, const Device &device);

Device refDevice();

} // namespace ds::property
