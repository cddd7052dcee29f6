// SPDX-License-Identifier: Apache-2.0
//
// What of a schedule's memory is state that outlives a run, and which elements of it a rank keeps.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// A persistent buffer that holds one number for every element of a bucket.
struct StateSlot {
  size_t bucket = 0; // index into Schedule::buckets
  int buffer = 0;    // index into Schedule::persistent
  bool whole = false;
  std::string name; // "weight", or the optimizer's name of the state
};
/// What is saved: weights first, then the states of each bucket in the optimizer's order. Schedules are verified.
std::vector<StateSlot> stateSlots(const Schedule &s);
/// The bucket's weights at their full precision: its master if it has one.
StateSlot weightSlot(const Schedule &s, size_t bucket);
/// Weights of 16 bits that are rounded from a master: not saved, and loaded from its values.
std::vector<StateSlot> roundedSlots(const Schedule &s);

/// Scalars that update changes (buffer indices): learning rate, step, running products.
std::vector<int> stateScalars(const Schedule &s);

/// Of these, what a dynamic loss scale goes by. A checkpoint of another precision has none of it, and it starts anew.
std::vector<int> scaleScalars(const Schedule &s);

/// The name that a parameter has in files.
inline const std::string &paramName(const SegmentInfo &g) {
  return g.exportName.empty() ? g.param : g.exportName;
}

/// Elements [begin, end) of a parameter.
struct ElemRange {
  int64_t begin = 0, end = 0;
};
/// Those in the rank's slice of the bucket, which it saves whatever the stage.
ElemRange ownedElems(const Schedule &s, const BucketInfo &b, const SegmentInfo &g, int64_t rank);
/// The bucket's element that the rank's buffer starts with.
int64_t firstElem(const Schedule &s, const StateSlot &slot, int64_t rank);

} // namespace ds
