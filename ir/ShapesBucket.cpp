// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of buckets and collectives. A bucket is a vector; a shard of it prints, and is typed by,
// the whole padded extent, so collectives and `own` keep dims.
#include "ir/ShapesCommon.h"

#include <algorithm>

namespace ds {

static Status wantBucket(const ShapeArgs &c, int i, const char *rule) {
  if (c.in[i].rank() == 1)
    return {};
  return c.error(operandText(i) + " is " + typeText(c.in[i]) + ", expected a bucket of rank 1",
                 rule);
}

// view: elements [at, at + product(dims)) of a bucket.
Status shapeView(const ShapeArgs &c) {
  TRY(wantBucket(c, 0, "view_1"));
  Dims dims = c.attrs.list("dims");
  TRY(wantDims(c, dims, "view_2"));
  int64_t at = c.attrs.i("at"), count = productOf(dims), extent = c.in[0].dims[0];
  if (at < 0 || at > extent || count > extent - at)
    return c.error("elements [" + std::to_string(at) + ", " + std::to_string(at) + " + " +
                       std::to_string(count) + ") are not inside " + typeText(c.in[0]),
                   "view_3");
  return addResult(c, c.in[0].dtype, std::move(dims));
}

// The number of ranks along `over`: every named axis must be in the mesh, once.
static StatusOr<int64_t> ranksOver(const ShapeArgs &c, const char *rule) {
  std::string over = c.attrs.s("over"), mesh;
  for (const auto &axis : c.mesh)
    mesh += (mesh.empty() ? "" : ",") + axis.first;
  int64_t ranks = 1;
  std::vector<std::string> seen;
  for (size_t begin = 0; begin <= over.size();) {
    size_t end = std::min(over.find(',', begin), over.size());
    std::string name = over.substr(begin, end - begin);
    auto at = std::find_if(c.mesh.begin(), c.mesh.end(),
                           [&](const auto &axis) { return axis.first == name; });
    if (at == c.mesh.end() || std::find(seen.begin(), seen.end(), name) != seen.end())
      return c.error("over=\"" + over + "\": expected distinct axes of the mesh, which has \"" +
                         mesh + "\"",
                     rule);
    if (at->second < 1 || __builtin_mul_overflow(ranks, at->second, &ranks))
      return c.error("over=\"" + over + "\": axis sizes do not multiply to a number of ranks",
                     rule);
    seen.push_back(name);
    begin = end + 1;
  }
  return ranks;
}

static Status wantDivisible(const ShapeArgs &c, int64_t ranks, const char *rule) {
  if (c.in[0].dims[0] % ranks == 0)
    return {};
  return c.error(typeText(c.in[0]) + " does not divide by " + std::to_string(ranks) + " ranks",
                 rule);
}

// own: this rank's slice of a replicated bucket; dims stay those of the whole.
Status shapeOwn(const ShapeArgs &c) {
  TRY(wantBucket(c, 0, "own_1"));
  TRY_ASSIGN(int64_t ranks, ranksOver(c, "own_2"));
  TRY(wantDivisible(c, ranks, "own_3"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// pack: operand i row-major from element at[i] on, in increasing order without overlap; gaps are zero.
Status shapePack(const ShapeArgs &c) {
  std::vector<int64_t> at = c.attrs.list("at");
  int64_t elems = c.attrs.i("elems"), free = 0;
  TRY(wantDims(c, {elems}, "pack_1"));
  if (at.size() != c.in.size())
    return c.error("at has " + std::to_string(at.size()) + " entries for " +
                       std::to_string(c.in.size()) + " operands",
                   "pack_2");
  for (size_t i = 0; i < at.size(); ++i) {
    TRY(wantSameDType(c, static_cast<int>(i), 0, "pack_3"));
    int64_t count = c.in[i].elems();
    if (at[i] < free)
      return c.error(operandText(static_cast<int>(i)) + " at " + std::to_string(at[i]) +
                         " overlaps what comes before it, which ends at " + std::to_string(free),
                     "pack_4");
    if (at[i] > elems || count > elems - at[i])
      return c.error(operandText(static_cast<int>(i)) + ", " + typeText(c.in[i]) + " at " +
                         std::to_string(at[i]) + ", ends after element " + std::to_string(elems),
                     "pack_5");
    free = at[i] + count;
  }
  return addResult(c, c.in[0].dtype, {elems});
}

// accumulate ([acc,] v): the accumulator has v's dims and, for floating point, v's accumulate type.
Status shapeAccumulate(const ShapeArgs &c) {
  const Type &v = c.in.back();
  DType dtype = isFloat(v.dtype) ? accumType(v.dtype) : v.dtype;
  TRY(wantKind(c, static_cast<int>(c.in.size()) - 1, Kinds::Number, "accumulate_1"));
  if ((c.in.size() == 1) != c.attrs.flag("first"))
    return c.error("got " + std::to_string(c.in.size()) + " operands, expected " +
                       (c.attrs.flag("first") ? "1 with first" : "2 without first"),
                   "accumulate_2");
  if (c.in.size() == 2)
    TRY(wantType(c, 0, dtype, v.dims, "accumulate_3"));
  return addResult(c, dtype, v.dims);
}

// all_gather: shard to the whole bucket.
Status shapeAllGather(const ShapeArgs &c) {
  TRY(wantBucket(c, 0, "all_gather_1"));
  TRY_ASSIGN(int64_t ranks, ranksOver(c, "all_gather_2"));
  TRY(wantDivisible(c, ranks, "all_gather_3"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// offload, fetch, read, write: the same elements in another space.
Status shapeTransfer(const ShapeArgs &c) { return addResult(c, c.in[0].dtype, c.in[0].dims); }

static DType sumType(DType d) { return isFloat(d) ? accumType(d) : d; }

// reduce_scatter: the sum over ranks, in the accumulate type; each rank keeps its slice.
Status shapeReduceScatter(const ShapeArgs &c) {
  TRY(wantBucket(c, 0, "reduce_scatter_1"));
  TRY(wantKind(c, 0, Kinds::Number, "reduce_scatter_1"));
  TRY_ASSIGN(int64_t ranks, ranksOver(c, "reduce_scatter_2"));
  TRY(wantDivisible(c, ranks, "reduce_scatter_3"));
  return addResult(c, sumType(c.in[0].dtype), c.in[0].dims);
}

// all_reduce: the sum over ranks, in the accumulate type, of a value of any shape.
Status shapeAllReduce(const ShapeArgs &c) {
  TRY(wantKind(c, 0, Kinds::Number, "all_reduce_1"));
  TRY_ASSIGN(int64_t ranks, ranksOver(c, "all_reduce_2"));
  (void)ranks;
  return addResult(c, sumType(c.in[0].dtype), c.in[0].dims);
}

} // namespace ds
