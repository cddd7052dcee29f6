// SPDX-License-Identifier: Apache-2.0
//
// Schedules for tests and benchmarks.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// Three layers, whose plans the damage tests damage.
inline constexpr const char *kDamageMlp = R"(module @mlp {
  param @w1 : f32[16,32] init normal(1,0.4)
  param @b1 : f32[32] init normal(2,0.1)
  param @w2 : f32[32,32] init normal(3,0.4)
  param @w3 : f32[32,8] init normal(4,0.4)

  func @micro(%x: f32[4,16]) {
  forward:
    %h1.mm = matmul %x, @w1 : f32[4,32]
    %h1.pre = add %h1.mm, @b1 : f32[4,32]
    %h1 = tanh %h1.pre : f32[4,32]
    %h2.mm = matmul %h1, @w2 : f32[4,32]
    %h2 = relu %h2.mm : f32[4,32]
    %logits = matmul %h2, @w3 : f32[4,8]
    return %logits
  }
}
)";

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
