// SPDX-License-Identifier: Apache-2.0
//
// What a seed draws: a graph as a list of rows (Rows.h) with operand numbers, and two configs. Every
// list is a graph: a row that does not fit its operands passes the first one on, and shapes follow from the operands. So the
// shrinker may drop or change anything.
#pragma once

#include "frontend/Config.h"
#include "test/property/Choices.h"

namespace ds::property {

struct NodeSpec {
  int row = 0;         // index into rows()
  size_t x = 0, y = 0; // operands: inputs first, then nodes
  uint64_t seed = 0;   // of the row's own choices
  int key = 0;         // parameters of equal key, place and shape are one: tied
  int layer = 0;       // module path, if the graph has paths
};

struct GraphSpec {
  std::vector<std::vector<int64_t>> floats; // inputs, dims of one sample; at least one
  std::vector<int64_t> ids;                 // integer inputs, dims [n] of one sample
  std::vector<NodeSpec> nodes;
  std::vector<int64_t> sizes; // extents that rows draw from
  LossConfig::Kind loss = LossConfig::Kind::Mse;
  uint64_t headSeed = 0; // choices of the last layer and the loss
  int64_t unused = 0;    // parameters no op reads, or only ops that the loss does not need
  bool paths = false;    // record module paths
};

struct CaseSpec {
  uint64_t seed = 0;
  GraphSpec graph;
  /// Both give the same bits under the contract of docs/architecture.md, "Numbers". Batch sizes are equal.
  PlanConfig config, partner;
  int updates = 1;
};

/// A function of the seed alone.
CaseSpec drawCase(uint64_t seed);

/// The contract says that a and b train to the same bits: all that differs is the stage, buckets and overlap, and under
/// accumulation both reduce at the same time.
bool sameBits(const PlanConfig &a, const PlanConfig &b);

} // namespace ds::property
