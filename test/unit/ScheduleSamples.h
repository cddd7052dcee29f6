// SPDX-License-Identifier: Apache-2.0
//
// Schedules for tests and benchmarks.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// A race-free stage-3-like schedule with about n instructions in micro.only: gathers one layer ahead, a
/// chain of launches over reused temporaries, reductions behind.
Schedule bigSchedule(int n);

/// A random program of n instructions on three streams over few bytes, with random waits; its indices,
/// sizes and waits are sane (S1, S4), everything else is left to chance.
Schedule randomSchedule(unsigned seed, int n);

/// Pairs (i, j), i < j, of instructions that conflict without being ordered, found the obvious way: all
/// pairs, all bytes, reachability by closure. Shares no code with the verifier. Negative: the i-th from the end of
/// what the program before has left running.
std::vector<std::pair<int, int>> racesByBruteForce(const Schedule &s, const SchedProgram &p);

/// The pairs that S2 reports for a program, read off verifySchedule's messages.
std::vector<std::pair<int, int>> racesReported(const Schedule &s, const SchedProgram &p);

/// Exchanges instructions k and k + 1, and what refers to them. False if one waits for the other.
bool exchange(SchedProgram &p, int k);

} // namespace ds
