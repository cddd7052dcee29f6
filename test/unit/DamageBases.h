// SPDX-License-Identifier: Apache-2.0
//
// Planned schedules that tests damage.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// What a schedule that tests damage is planned for.
struct Base {
  bool tied = false;
  int stage = 0, gradAccum = 1, world = 2;
  bool overlap = true, carry = false, adam = true, half = false;
  bool optimizer = false, param = false; // lie in host memory
  bool nvme = false;                     // on nvme instead
  bool slices = false;                   // updates run slice by slice
  std::string str() const;
};

Schedule planned(const Base &b);

} // namespace ds
