// SPDX-License-Identifier: Apache-2.0
//
// How long instructions take on a target: launches by the roofline of Williams, Waterman and Patterson (2009) with the
// parts of the peaks that kernels reach, collectives by latency and bandwidth, copies by their link; or, where a target
// has measured curves, by those. What runs at once is the business of passes/Simulate.h.
#pragma once

#include "frontend/Target.h"
#include "ir/Schedule.h"

namespace ds {

/// What the time of an instruction depends on: rates as they are reached, per second and rank.
struct Rates {
  double memory = 0;                   // bytes
  double flopsF32 = 0, flops16 = 0;    // of matrix products
  double link = 0;                     // bytes to the neighbours, over the slowest part of the way
  double hostLink = 0, hostMemory = 0; // bytes
  double nvmeRead = 0, nvmeWrite = 0;  // bytes
  double launch = 0;                   // seconds beside the work of a launch or copy
  double collective = 0, hop = 0;      // seconds of a collective and of each of its steps
  std::map<std::string, RateCurve, std::less<>> curves; // as in Target

  /// Whether times can be told: memory and products are stated, and the link, if there is more than one rank.
  bool complete(int64_t world) const;
};

/// What `world` ranks reach on a target. `missing`, if given: what the target does not state and was taken from defaults.
Rates ratesOf(const Target &t, int64_t world, std::vector<std::string> *missing = nullptr);

/// Operations of one launch's matrix products: 2 x rows x columns x inner extent, over the batch. 0 for other ops.
double productFlops(const Schedule &s, const SchedProgram &p, const Instr &i);
/// Bytes that a launch moves: every operand and destination once, but of tables only the rows that are taken, and
/// nothing that already lies in its place.
double movedBytes(const Schedule &s, const SchedProgram &p, const Instr &i);

/// Seconds of one instruction by itself, on one rank.
double seconds(const Schedule &s, const SchedProgram &p, const Instr &i, const Rates &r);

/// The same of every instruction, in ns: [program][instruction].
using InstrTimes = std::vector<std::vector<int64_t>>;
InstrTimes instrTimes(const Schedule &s, const Rates &r);

/// Seconds of one update's launches on one rank, one after the other. With rates of the peak: the least time.
double computeSeconds(const Schedule &s, const Rates &r);

} // namespace ds
