// SPDX-License-Identifier: Apache-2.0
//
// Where results live across ranks, from where the operands live. One generic rule, all repl gives repl and
// any local gives local, and the few ops that make, change or accept shards and partial sums (docs/ir.md).
#include "ir/GraphShapes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace ds {

namespace {

class Placer {
public:
  Placer(const ShapeCtx &c, llvm::ArrayRef<Symbol *> bound) : c(c), bound(bound) {}
  Status run();

private:
  Status setAll(Placement p, const std::string &axes = "") {
    for (Type &t : c.out)
      t = t.withPlacement(p, axes);
    return {};
  }
  bool any(Placement p) const {
    return llvm::any_of(c.in, [&](const Type &t) { return t.placement == p; });
  }
  // "operand 2 is f32[8] shard(dp)"
  std::string operand(size_t i) const {
    return "operand " + std::to_string(i) + " is " + c.in[i].str();
  }
  Status withoutMesh();
  Status collective(Placement from, Placement to);
  Status pack();
  Status sumSquares();
  Status accumulate();
  Status overShards();
  bool isScalarOperand(size_t i) const;

  const ShapeCtx &c;
  llvm::ArrayRef<Symbol *> bound;
};

Status Placer::withoutMesh() {
  if (info(c.kind).isCollective() || c.kind == OpKind::Own)
    return c.error("needs a mesh, and the module has none", "G8");
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.in[i].placement != Placement::Local)
      return c.error(operand(i) + ", but the module has no mesh", "G8");
  return setAll(Placement::Local);
}

Status Placer::collective(Placement from, Placement to) {
  std::string over = c.attrs.s("over");
  const Type &in = c.in[0];
  bool sharded = from == Placement::Shard || from == Placement::Partial;
  if (in.placement != from || (sharded && in.axes != over)) {
    std::string want(text(from));
    if (sharded)
      want += "(" + over + ")";
    return c.error("expects " + want + ", but " + operand(0), "G9");
  }
  return setAll(to, to == Placement::Shard ? over : "");
}

Status Placer::pack() {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.in[i].isShard() || c.in[i].isPartial())
      return c.error("takes whole values, but " + operand(i), "G9");
  std::string axes;
  for (auto &[name, size] : c.module.mesh)
    axes += (axes.empty() ? "" : ",") + name;
  return setAll(Placement::Partial, axes);
}

Status Placer::sumSquares() {
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].placement != Placement::Shard && c.in[i].placement != Placement::Repl)
      return c.error("takes shard or repl operands, but " + operand(i), "G9");
    if (c.in[i].placement != c.in[0].placement || c.in[i].axes != c.in[0].axes)
      return c.error("operands are placed differently: " + operand(0) + ", " + operand(i), "G9");
  }
  return c.in[0].isShard() ? setAll(Placement::Partial, c.in[0].axes) : setAll(Placement::Repl);
}

Status Placer::accumulate() {
  const Type &v = c.in.back();
  Type target = c.in.size() == 2 ? c.in[0] : bound.empty() ? v : bound[0]->type;
  bool same = v.placement == target.placement && v.axes == target.axes;
  bool ownShare = target.isPartial() && v.placement == Placement::Local && v.elems() == 1;
  bool intoLocal = target.placement == Placement::Local && v.isRepl();
  if (!same && !ownShare && !intoLocal)
    return c.error("adds " + v.str() + " to " + target.str(), target.isPartial() ? "G10" : "G9");
  return setAll(target.placement, target.axes);
}

// Replicated scalars go with shards: 0-d values, and the f64[groups] and bool operands of optimizers.
bool Placer::isScalarOperand(size_t i) const {
  const Type &t = c.in[i];
  if (!t.isRepl())
    return false;
  if (int vectors = bucketOperands(c.kind)) // then scalars
    return i >= static_cast<size_t>(vectors);
  return t.rank() <= 1 && t.elems() == 1;
}

Status Placer::overShards() {
  const OpInfo &op = info(c.kind);
  if (op.trait != Trait::Elementwise && op.trait != Trait::Optimizer && c.kind != OpKind::Copy) {
    for (size_t i = 0; i < c.in.size(); ++i)
      if (c.in[i].isShard())
        return c.error("does not take a shard, but " + operand(i), "G9");
  }
  size_t first = 0;
  while (!c.in[first].isShard())
    ++first;
  const Type &shard = c.in[first];
  for (size_t i = 0; i < c.in.size(); ++i) {
    const Type &t = c.in[i];
    bool matches = t.isShard() && t.axes == shard.axes && t.dims == shard.dims;
    if (!matches && !isScalarOperand(i))
      return c.error("shards mix only with equal shards and replicated scalars, but " +
                         operand(first) + " and " + operand(i),
                     "G9");
  }
  return setAll(Placement::Shard, shard.axes);
}

Status Placer::run() {
  if (c.module.mesh.empty())
    return withoutMesh();
  switch (c.kind) {
  case OpKind::AllGather:
    return collective(Placement::Shard, Placement::Repl);
  case OpKind::ReduceScatter:
    return collective(Placement::Partial, Placement::Shard);
  case OpKind::AllReduce:
    return collective(Placement::Partial, Placement::Repl);
  case OpKind::Own:
    return collective(Placement::Repl, Placement::Shard);
  case OpKind::Pack:
    return pack();
  case OpKind::SumSquares:
    return sumSquares();
  case OpKind::Accumulate:
    return accumulate();
  case OpKind::View:
    if (c.in[0].isShard())
      return c.error("does not take a shard, but " + operand(0), "G9");
    return setAll(c.in[0].placement, c.in[0].axes);
  case OpKind::Offload:
  case OpKind::Fetch:
  case OpKind::Read:
  case OpKind::Write:
    return setAll(c.in[0].placement, c.in[0].axes);
  default:
    break;
  }
  bool addsAlike = c.kind == OpKind::Add && c.in[0].placement == c.in[1].placement &&
                   c.in[0].axes == c.in[1].axes && c.in[0].dims == c.in[1].dims;
  if (addsAlike && c.in[0].isPartial())
    return setAll(Placement::Partial, c.in[0].axes);
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.in[i].isPartial())
      return c.error("a partial value feeds only reduce_scatter, all_reduce, accumulate, view, "
                     "transfers and the addition to one of equal placement, but " +
                         operand(i),
                     "G10");
  if (any(Placement::Shard))
    return overShards();
  if (!any(Placement::Local))
    return setAll(Placement::Repl);
  if (info(c.kind).trait == Trait::Optimizer)
    return c.error(
        "takes shard or repl operands, but " +
            operand(llvm::find_if(c.in, [](const Type &t) { return !t.isRepl(); }) - c.in.begin()),
        "G9");
  return setAll(Placement::Local);
}

} // namespace

Status placeResults(const ShapeCtx &c, llvm::ArrayRef<Symbol *> bound) {
  Space space = c.in.empty() ? Space::Device : c.in[0].space;
  for (size_t i = 1; i < c.in.size(); ++i)
    if (c.in[i].space != space)
      return c.error("operand 0 is in " + std::string(text(space)) + " memory, operand " +
                         std::to_string(i) + " in " + std::string(text(c.in[i].space)),
                     "G12");
  if (info(c.kind).isTransfer()) {
    Route route = routeOf(c.kind);
    if (space != route.from)
      return c.error("operand 0 is in " + std::string(text(space)) + " memory, expected " +
                         std::string(text(route.from)),
                     "G12");
    space = route.to;
  }
  for (Type &t : c.out)
    t.space = space;
  return Placer(c, bound).run();
}

static std::string axisProblem(llvm::StringRef axes, const Module &m, int64_t &ranks) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  axes.split(names, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    bool known = llvm::any_of(m.mesh, [&](auto &a) { return a.first == names[i]; });
    if (!known)
      return "the mesh has no axis '" + names[i].str() + "' [G8]";
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i)
      return "axis '" + names[i].str() + "' is named twice [G8]";
    ranks *= m.axisSize(names[i]);
  }
  return "";
}

std::string typeProblem(const Type &t, const Module &m) {
  int64_t elems = 1;
  for (int64_t d : t.dims) {
    if (d < 0)
      return "dimension " + std::to_string(d) + " is negative [G7]";
    if (d > kMaxElems || (d > 0 && elems > kMaxElems / d))
      return "more than 2^48 elements [G7]";
    elems *= d > 0 ? d : 1;
  }
  if (t.placement == Placement::Local)
    return "";
  if (m.mesh.empty())
    return "placement " + std::string(text(t.placement)) +
           " needs a mesh, and the module has none [G8]";
  if (t.isRepl())
    return "";
  int64_t ranks = 1;
  if (std::string p = axisProblem(t.axes, m, ranks); !p.empty())
    return p;
  if (t.isShard() && (t.rank() != 1 || t.dims[0] % (ranks * kQuantum) != 0))
    return "a shard is flat and a multiple of " + std::to_string(ranks) + " ranks x " +
           std::to_string(kQuantum) + " elements, but has dimensions " + dimsText(t.dims) + " [G8]";
  return "";
}

} // namespace ds
