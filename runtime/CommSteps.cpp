// SPDX-License-Identifier: Apache-2.0
#include "runtime/CommSteps.h"

#include "runtime/CommSum.h"

#include <algorithm>

namespace ds {

namespace {

constexpr int64_t kSmall = 1 << 20; // bytes of all ranks together that all send to all
constexpr int64_t kBegin = 128;     // elements: parts begin at multiples

bool isHalf(DType t) { return sumType(t) != t; }
bool isSmall(const CommOp &op, int world) {
  return op.kind == InstrKind::AllReduce && op.elems * byteSize(op.dtype) * world <= kSmall;
}

/// The elements that a rank adds.
struct Part {
  int64_t begin, end;
  int64_t elems() const { return end - begin; }
};
Part partOf(const CommOp &op, int rank, int world) {
  int64_t each = (op.elems + world - 1) / world;
  if (op.kind == InstrKind::AllReduce)
    each = (each + kBegin - 1) / kBegin * kBegin;
  return {std::min(op.elems, rank * each), std::min(op.elems, (rank + 1) * each)};
}

/// Makes the steps of one exact sum.
class Exact {
public:
  Exact(const CommOp &op, int rank, int world, std::byte *staging)
      : op(op), rank(rank), world(world), staging(staging), size(byteSize(op.dtype)) {}

  /// Every rank sends everything to every other, and adds all of it.
  std::vector<CommStep> small() {
    Part all{0, op.elems};
    return {exchange([&](int) { return all; }, all), sum(all, op.dst)};
  }
  /// Every rank adds one part, and sends it to all where all want it.
  std::vector<CommStep> parts() {
    auto part = [&](int r) { return partOf(op, r, world); };
    bool whole = op.kind == InstrKind::AllReduce;
    int64_t outSize = byteSize(sumType(op.dtype));
    Part own = part(rank);
    auto *out = static_cast<std::byte *>(op.dst);
    std::byte *ownOut = whole ? out + own.begin * outSize : out;
    std::vector<CommStep> steps = {exchange(part, own)};
    if (own.elems() > 0)
      steps.push_back(sum(own, ownOut));
    CommStep back{CommStep::Messages};
    for (int r = 0; whole && r < world; ++r)
      if (r != rank) {
        add(back, r, true, ownOut, own.elems() * outSize);
        add(back, r, false, out + part(r).begin * outSize, part(r).elems() * outSize);
      }
    steps.push_back(std::move(back));
    std::erase_if(steps, [](const CommStep &s) {
      return s.what == CommStep::Messages && s.messages.empty();
    });
    return steps;
  }

private:
  // Sends each rank the part it adds, and receives the others' of `own`.
  template <typename F> CommStep exchange(F part, Part own) {
    CommStep s{CommStep::Messages};
    for (int r = 0; r < world; ++r)
      if (r != rank) {
        add(s, r, true, source() + part(r).begin * size, part(r).elems() * size);
        add(s, r, false, received(r, own), own.elems() * size);
      }
    return s;
  }
  CommStep sum(Part own, void *dst) {
    CommStep s{CommStep::Sum};
    s.dst = dst;
    s.elems = own.elems();
    s.dtype = static_cast<uint8_t>(op.dtype);
    for (int r = 0; r < world; ++r)
      s.sources.push_back(r == rank ? source() + own.begin * size : received(r, own));
    return s;
  }
  std::byte *source() const { return static_cast<std::byte *>(op.src); }
  std::byte *received(int r, Part own) const { return staging + r * own.elems() * size; }
  static void add(CommStep &s, int peer, bool sends, void *data, int64_t bytes) {
    if (bytes > 0)
      s.messages.push_back({peer, sends, data, static_cast<size_t>(bytes)});
  }

  const CommOp &op;
  int rank, world;
  std::byte *staging;
  int64_t size;
};

} // namespace

int64_t stagingBytes(const CommOp &op, int world, bool exact) {
  if (op.kind == InstrKind::AllGather)
    return 0;
  int64_t size = byteSize(op.dtype);
  if (exact)
    return size * world * (isSmall(op, world) ? op.elems : partOf(op, 0, world).elems());
  if (!isHalf(op.dtype))
    return 0;
  return size * (op.kind == InstrKind::AllReduce ? op.elems : op.elems / world);
}

std::vector<CommStep> commSteps(const CommOp &op, int rank, int world, bool exact,
                                std::byte *staging) {
  bool gathers = op.kind == InstrKind::AllGather;
  if (exact && !gathers) {
    Exact e(op, rank, world, staging);
    return isSmall(op, world) ? e.small() : e.parts();
  }
  CommStep s;
  s.kind = gathers                               ? DsAllGather
           : op.kind == InstrKind::ReduceScatter ? DsReduceScatter
                                                 : DsAllReduce;
  s.dst = !gathers && isHalf(op.dtype) ? staging : op.dst;
  s.src = op.src;
  s.elems = op.elems;
  s.dtype = static_cast<uint8_t>(op.dtype);
  std::vector<CommStep> steps = {s};
  if (gathers || !isHalf(op.dtype))
    return steps;
  CommStep widen{CommStep::Sum}; // to f32
  widen.dst = op.dst;
  widen.elems = s.kind == DsAllReduce ? op.elems : op.elems / world;
  widen.dtype = s.dtype;
  widen.sources = {staging};
  steps.push_back(std::move(widen));
  return steps;
}

} // namespace ds
