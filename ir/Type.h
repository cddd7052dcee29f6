// SPDX-License-Identifier: Apache-2.0
//
// The type of a value: element type, dimensions, placement over the mesh, and memory space.
// Text: "f32[64,256] shard(dp) host". Defaults (local placement, device space) are not printed.
#pragma once

#include "ir/DType.h"

#include <string>
#include <vector>

namespace ds {

/// Where the bits of a value live across ranks (docs/ir.md).
enum class Placement : uint8_t {
  Local,   // this rank's own value; ranks may differ
  Repl,    // the same bits on every rank
  Shard,   // a flat 1/N slice per rank; dims give the global padded extent
  Partial, // this rank's contribution; the value is the sum over ranks
};

enum class Space : uint8_t { Device, Host, Nvme };

struct Type {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  Placement placement = Placement::Local;
  std::string axes; // comma-separated mesh axes of Shard and Partial, e.g. "dp"
  Space space = Space::Device;

  Type() = default;
  Type(DType d, std::vector<int64_t> dims, Placement p = Placement::Local, std::string axes = "")
      : dtype(d), dims(std::move(dims)), placement(p), axes(std::move(axes)) {}

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  /// Product of the dimensions (1 for a scalar). The global extent for a shard.
  int64_t elems() const;
  int64_t bytes() const { return elems() * byteSize(dtype); }
  bool isShard() const { return placement == Placement::Shard; }
  bool isRepl() const { return placement == Placement::Repl; }
  bool isPartial() const { return placement == Placement::Partial; }

  Type withDims(std::vector<int64_t> d) const;
  Type withDType(DType d) const;
  Type withPlacement(Placement p, std::string axes = "") const;

  std::string str() const;
  bool operator==(const Type &) const = default;
};

std::string dimsText(const std::vector<int64_t> &dims); // "[8,64]"
std::string_view text(Placement p);
std::string_view text(Space s);

/// Elements are padded to world x kQuantum, so that every rank holds equal bytes and chunks of
/// kQuantum elements never straddle two ranks (docs/ir.md, "buckets").
inline constexpr int64_t kQuantum = 128;

} // namespace ds
