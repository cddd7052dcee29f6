// SPDX-License-Identifier: Apache-2.0
//
// Where the initial bytes of a parameter or constant come from. Weights are handles: planning never
// reads them (D3); at run time each rank reads only the byte ranges it owns.
#pragma once

#include "ir/DType.h"

#include <cstdint>
#include <string>

namespace ds {

struct Source {
  enum class Kind : uint8_t {
    Zeros,  // (no text)
    File,   // from "m.data" at 4096 [as f32]
    Normal, // init normal(seed,std): element i of the tensor is a function of (seed, i) alone
    Splat,  // = 0.5
    Hex,    // = hex "0000803f" [as f32]: little-endian bytes
  };
  Kind kind = Kind::Zeros;
  std::string path;          // File: relative to the model's directory, never leaving it
  int64_t offset = 0;        // File: bytes
  DType stored = DType::F32; // File, Hex: element type of the bytes; converted on load
  uint64_t seed = 0;         // Normal
  double value = 0;          // Normal: standard deviation; Splat: the value
  std::string bytes;         // Hex: raw bytes (printed as hex)

  bool operator==(const Source &) const = default;
};

/// How the loader fills an input, and what it checks. Text behind the input's type, in this order:
/// "label", "count of labels ignore -100 skip 1" (or "count" alone: one per micro-batch) or "rng"; for labels
/// and data "below 50257"; labels may also have "ignore -100" and "skip 1".
struct InputMeta {
  /// Rng: a u64[2] with the run's seed and the number of the micro-batch's first sample, counted over all
  /// updates, so that no epoch repeats random numbers.
  enum class Role : uint8_t { Data, Label, Count, Rng } role = Role::Data;
  bool fromData() const { return role == Role::Data || role == Role::Label; }
  // Count: an f64[] with this rank's number of counted label elements of the whole window.
  std::string countOf; // input whose elements are counted; empty: one per micro-batch
  bool hasIgnore = false;
  int64_t ignoreIndex = 0; // elements equal to it are not counted, and need not be below bound
  // Count: the first elements of every row (last axis) that are not counted. Label: those that are not compared,
  // because the plan shifts: element t belongs to position t - skip.
  int64_t skip = 0;
  int64_t bound = 0; // Data, Label: integers must lie in [0, bound); 0: unchecked
  bool operator==(const InputMeta &) const = default;
};

} // namespace ds
