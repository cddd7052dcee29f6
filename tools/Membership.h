// SPDX-License-Identifier: Apache-2.0
//
// Ranks that mpirun or torchrun has started as processes, by what these leave in the environment.
#pragma once

#include "runtime/ExchangeTcp.h"

namespace ds {

/// rank -1 where nothing says that there are several processes.
StatusOr<Membership> membership();
/// Only rank 0 talks: what another process writes to stdout goes nowhere from now on.
void quiet();

} // namespace ds
