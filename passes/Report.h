// SPDX-License-Identifier: Apache-2.0
//
// What a schedule costs, read off the schedule alone: bytes by kind, the peak and what lives there, bytes sent.
#pragma once

#include "ir/Schedule.h"

#include <map>

namespace ds {

struct LiveBuffer {
  std::string name;
  int64_t bytes;
};

/// Where most temporaries of a space live at once.
struct PeakReport {
  int64_t bytes = 0;                        // of them
  std::string program, instr, module, node; // node: of the ONNX model
  std::vector<LiveBuffer> live;             // largest first
  /// "instruction logits.grad (lm_head, node linear_7)".
  std::string where() const;
};
PeakReport peakOf(const Schedule &s, Space space);

/// What lies outside of the device.
struct SpaceReport {
  std::map<BufferKind, int64_t> persistent; // bytes by kind
  int64_t staging = 0;                      // temporaries on their way
  int64_t arena = 0;
  PeakReport peak;
};

/// Memory of one rank. All but host and nvme is about the device.
struct MemoryReport {
  std::map<BufferKind, int64_t> persistent; // bytes by kind
  int64_t arena = 0, load = 0;
  SpaceReport host, nvme;
  PeakReport peak;
};
MemoryReport memoryReport(const Schedule &s);

/// A part of the peak: a persistent kind ("optimizer states"), or temporaries that differ by their layer only
/// ("transformer.h.*.attn.softmax").
struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
  int64_t count = 1; // of temporaries
};
/// Largest first. persistent: by kind, of the same space.
std::vector<MemoryPart> partsOfPeak(const PeakReport &peak,
                                    const std::map<BufferKind, int64_t> &persistent);
/// Of the temporaries alone.
std::vector<MemoryPart> temporariesOfPeak(const PeakReport &peak);

/// The name with '*' for its first part that is a number: "h.3.attn" becomes "h.*.attn".
std::string withoutLayer(const std::string &name);
/// "optimizer states" for BufferKind::State, and so on.
std::string_view nounOf(BufferKind k);

/// One bucket's collectives in an update, in elements that each rank sends: E x (N-1)/N per gather or
/// reduction of E elements (scalars: E x (N-1), by all_reduce). Valid counts parameters, padding the rest.
struct BucketTraffic {
  std::string bucket;
  int64_t gathers = 0, reductions = 0; // per update
  int64_t validElems = 0, paddingElems = 0;
  int64_t sentBytes = 0; // with padding
  // Why it differs from the stage's formula; carried: gathered once per update, kept till the next.
  bool resident = false, tied = false, carried = false;
};
struct TrafficReport {
  std::vector<BucketTraffic> buckets;
  int64_t sentBytes = 0;     // of buckets
  int64_t scalarBytes = 0;   // loss, norm, counts
  int64_t gatheredElems = 0; // parameters gathered per micro-batch pass (stage 3), valid
  int64_t residentElems = 0; // parameters that stay whole on every rank
};
TrafficReport trafficReport(const Schedule &s);

/// Values that backward computes again, in one micro-batch; those that differ by their layer only are one part. Most bytes
/// first.
std::vector<MemoryPart> recomputedParts(const Schedule &s);
/// Where inputs of blocks are computed again, too: how often backward repeats one launch, at most. Else 0.
int timesNested(const Schedule &s);
/// Their number, one line for people; empty: there are none.
std::string recomputedText(const Schedule &s);

/// What dropout draws its masks by, one line for people: by sample, or which one is not. Empty: there is none.
std::string dropoutText(const Schedule &s);

/// Bytes that each rank sends for one collective: (N-1)/N of its vector, or all of it N-1 times for an all_reduce.
int64_t sentBytes(const Schedule &s, const SchedProgram &p, const Instr &i);

/// How often a program runs in one update of A micro-batches.
int64_t runsPerUpdate(const std::string &program, int64_t gradAccum);

} // namespace ds
