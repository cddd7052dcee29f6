// SPDX-License-Identifier: Apache-2.0
//
// Which elements of weights, masters and states a buffer holds, and whether an optimizer has changed them: followed
// through transfers, optimizers and roundings in list order, element by element, since large updates run in slices.
#pragma once

#include "ir/ScheduleVerify.h"

#include <map>
#include <optional>

namespace ds {

/// Elements [at, at + elems) of persistent buffer `of`; on a rank's own slice they count from its start.
struct Held {
  int of = -1;
  int64_t at = 0, elems = 0;
  std::string updated; // the optimizer launch that has changed all of them; empty: not all
};

class HeldParts {
public:
  explicit HeldParts(const Schedule &s) : s(s) {}

  /// Temporaries hold nothing yet.
  void begin();
  /// Follows what i writes into temporaries.
  void follow(const SchedProgram &p, const Instr &i);
  /// An optimizer has changed the persistent place r, or a transfer has brought back what one has changed.
  void update(const SchedProgram &p, PlaceRef r, const std::string &label);
  /// What a place holds; nothing if it is not known, or not one run of elements.
  std::optional<Held> at(const SchedProgram &p, PlaceRef r) const;
  /// Of a place of a persistent buffer: where it starts in that, in elements.
  static int64_t firstElem(const PlaceInfo &at);

private:
  struct Parts : std::map<int64_t, Held> { // by first element in the buffer; disjoint
    void write(int64_t begin, int64_t end, std::optional<Held> what);
    std::optional<Held> read(int64_t begin, int64_t end) const;
  };
  const Schedule &s;
  std::map<int, Parts> persistent, temporary; // by buffer; of the first, what was updated
};

/// Whether i is an optimizer launch, and whether r is the parameters that it updates.
bool isOptimizer(const Instr &i);
bool isUpdated(const Instr &i, PlaceRef r);

} // namespace ds
