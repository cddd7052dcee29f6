// SPDX-License-Identifier: Apache-2.0
//
// Whether this machine has the memory that a schedule's ranks will take, asked before anything is mapped: a run that
// swaps, or that the system kills at its first update, helps nobody.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// Bytes that processes may still take: MemAvailable of the system, or what the memory limit of this process's control
/// group leaves, if that is less. -1: not known.
int64_t availableMemory();

/// Arenas in device (the cpu's) and host memory, for all ranks of this process. An error says how much is missing and
/// what helps.
Status checkMemory(const Schedule &s);
/// The same against a given number of bytes; -1: always fits.
Status checkMemory(const Schedule &s, int64_t available);

} // namespace ds
