// SPDX-License-Identifier: Apache-2.0
//
// Which forward values are not kept for the backward phase, and how they come back there.
#pragma once

#include "frontend/Config.h"
#include "ir/Graph.h"

#include "llvm/ADT/DenseSet.h"

namespace ds {

/// What made a clone, as origins say: right before what needs it, or in a sweep.
inline constexpr char kRecomputePass[] = "recompute", kSweepPass[] = "recompute-sweep";

/// Whether backward may compute the op of the forward phase again: it is pure, binds no symbol and reads none that the
/// micro-batch changes.
bool canRecompute(const Op &op);

/// Clones the chosen ops of the forward phase into the backward phase, each just before the first op that needs it, and lets
/// backward read the clones, named `<value>.re`. Views follow their operands. What backward does not need is not cloned, nor
/// is what canRecompute refuses. Sweeps bring values of chosen ops earlier, and again; backward reads the latest.
void recomputeOps(Module &m, Program &p, const llvm::DenseSet<const Op *> &chosen,
                  llvm::ArrayRef<RecomputeSweep> sweeps = {});

/// A part of the forward phase between values that are kept: a layer.
struct Block {
  std::string name; // its module path, or its first value's name
  std::vector<Op *> ops;
};
/// The repeated blocks of the forward phase, in order: by the layers that the exporter recorded, else the runs of equal
/// structure between values through which everything flows. Ops of no block are in none.
std::vector<Block> repeatedBlocks(Program &p);
/// Equal for blocks of equal structure: op, attributes, types and edges; names and dropout's keys do not count.
size_t structureHash(const Block &b);

} // namespace ds
