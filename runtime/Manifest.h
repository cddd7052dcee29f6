// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint holds, as its manifest.json says it. Tensors are addressed by parameter and element range, not
// by rank, so that any stage and number of ranks can read what any other wrote. docs/checkpoints.md.
#pragma once

#include "ir/Schedule.h"

namespace ds {

/// Elements [begin, end) of a tensor, under its key in one file.
struct CheckpointPiece {
  int64_t begin = 0, end = 0;
  std::string file; // inside the checkpoint's folder
};

/// A parameter or one of its optimizer states.
struct CheckpointTensor {
  std::string param; // the parameter's name in the model (or in the plan, if it has none there)
  std::string slot;  // "weight", or the state's: "exp_avg", "exp_avg_sq", "momentum"
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<CheckpointPiece> pieces; // in increasing order, without gaps
  std::string key() const { return slot + "/" + param; }
};

/// A scalar that updates change: learning rate, step, running products.
struct CheckpointScalar {
  std::string name;
  Type type;
  std::vector<uint8_t> bytes; // little-endian
};

struct Manifest {
  std::string model; // the schedule's name
  int64_t update = 0;
  int64_t world = 1, microBatch = 1, gradAccum = 1, stage = 0;
  std::string data; // --data of the run
  uint64_t seed = 0;
  bool shuffle = true;
  std::vector<CheckpointTensor> tensors;
  std::vector<CheckpointScalar> scalars;

  int64_t globalBatch() const { return world * microBatch * gradAccum; }
};

std::string printManifest(const Manifest &m);
/// Errors carry path:line:col. Whatever the text, the result is consistent: pieces cover their tensors, file names
/// stay inside the folder, scalars have the bytes of their types.
StatusOr<Manifest> parseManifest(std::string_view text, std::string_view path);

} // namespace ds
