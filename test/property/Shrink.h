// SPDX-License-Identifier: Apache-2.0
//
// Makes a failing case smaller while the same kind of failure remains: greedy, one feature of the graph or the
// config at a time, until nothing more can go.
#pragma once

#include "test/property/Check.h"

#include <functional>

namespace ds::property {

using Predicate = std::function<Failure(const Case &)>;

struct Shrunk {
  CaseSpec spec; // what remains of the draw
  Case small;    // without ops that its rows need and the failure does not
  Failure failure;
  int tried = 0;
};

/// `failure` is what fails says about spec. At most `budget` calls of fails.
Shrunk shrink(const CaseSpec &spec, const Failure &failure, const Predicate &fails,
              int budget = 600);

} // namespace ds::property
