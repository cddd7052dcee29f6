// SPDX-License-Identifier: Apache-2.0
//
// fuse-pointwise: elementwise ops whose values nothing else reads become one op, with the same bits.
//   %s = sigmoid %g; %m = mul %g, %s; %h = mul %m, %u   ->   %h = pointwise %g, %u {body="mul(mul(a, sigmoid(a)), b)"}
// The group's ops then run where its last one stands. An op joins only if
//   - its result has the group's dimensions, so that no element is computed more often than before,
//   - no plan needs more memory: what the group reads is kept until there, what it had made before is not there any more,
//   - no op between waits for a collective or a transfer that nothing before has waited for: no work starts later.
// A broadcast that only the group reads joins, too: kernels of elementwise ops repeat elements themselves.
#include "ir/GraphBuilder.h"
#include "ir/PointwiseBody.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ds {

namespace {

/// Ops from a member to the root, at most: what is looked at for each.
constexpr int kFarthest = 200;

/// What views share the storage of.
const Value *storageOf(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v;
}

bool comesFromElsewhere(const Value *v) {
  const Op *def = storageOf(v)->def;
  return def && (def->info().isCollective() || def->info().isTransfer());
}

/// Where things stand in a program.
class Places {
public:
  explicit Places(const Program &p) {
    llvm::DenseSet<const Value *> awaited;
    int at = 0;
    for (const Op &op : p.ops) {
      position[&op] = at++;
      int first = 0;
      for (const Value *v : op.operands) {
        const Value *s = storageOf(v);
        lastRead[s] = position[&op];
        first += !op.info().isView() && comesFromElsewhere(v) && awaited.insert(s).second;
      }
      waits.push_back((waits.empty() ? 0 : waits.back()) + first);
    }
    for (const Value *v : p.returns)
      lastRead[storageOf(v)] = at;
  }
  int of(const Op *op) const { return position.lookup(op); }
  bool waitsBetween(const Op *a, const Op *b) const {
    return waits[static_cast<size_t>(of(a))] != waits[static_cast<size_t>(of(b))];
  }
  int end(const Value *v) const { return lastRead.lookup(storageOf(v)); }
  /// A group now stands for its ops, where the last one was.
  void replaced(const Op *root, const Value *old, const Op *group) {
    position[group] = of(root);
    lastRead[group->result()] = lastRead.lookup(old);
    for (const Value *v : group->operands) {
      int &last = lastRead[storageOf(v)];
      last = std::max(last, of(root));
    }
  }

private:
  llvm::DenseMap<const Op *, int> position;
  llvm::DenseMap<const Value *, int> lastRead; // by storage
  std::vector<int> waits; // first reads of collectives and transfers up to each op
};

bool mayJoin(const Op &op) {
  if (!isPointwiseStep(op.kind))
    return false;
  auto fits = [](const Value *v) { return isPointwiseType(v->type.dtype) && !v->type.isPartial(); };
  return llvm::all_of(op.operands, fits) && fits(op.result());
}

// Whether v may be smaller than the other operands of each op that reads it.
bool usersBroadcast(const Value *v) {
  return llvm::none_of(v->users, [](const Op *op) {
    return op->kind == OpKind::ReluGrad || op->kind == OpKind::GeluGrad ||
           op->kind == OpKind::TanhGrad;
  });
}

class Group {
public:
  Group(Program &p, Places &places, Op *root) : program(p), places(places), root(root) {
    members.insert(root);
    // Ops that need no more memory join first. One that does may need none once what it reads has joined, too: the largest
    // group that needs none is kept, and tried again without the op that came next.
    while (true) {
      size_t good = members.size();
      while (addOne(true) || addOne(false))
        if (!needsMemory())
          good = members.size();
      if (good == members.size())
        return;
      barred.insert(members[good]);
      while (members.size() > good)
        members.pop_back();
    }
  }

  size_t size() const { return members.size(); }

  /// The op for all of it, in the place of the last one.
  void replace(Module &m) {
    number(root->result());
    const bool isOne = steps.size() == 1; // with smaller operands
    // The first operand's type chooses the kernel: a float, if there is one.
    auto isFloatValue = [](const Value *v) { return isFloat(v->type.dtype); };
    auto first = llvm::find_if(operands, isFloatValue);
    if (first != operands.end() && !isOne)
      std::swap(operands[0], *first);
    Builder b(m, program);
    b.before = root;
    b.phase = root->phase;
    b.origin = root->origin;
    b.origin.pass = "fuse-pointwise";
    llvm::SmallVector<std::string, 1> names;
    Value *old = root->result();
    if (root->bound.empty()) {
      names.push_back(old->name);
      m.rename(program, old, program.uniqueName(names[0] + ".old"));
    }
    llvm::SmallVector<Value *, 3> args;
    if (isOne)
      for (Value *v : root->operands)
        args.push_back(operands[static_cast<size_t>(valueOf(v))]);
    Op *fused = isOne
                    ? b.create(root->kind, args, names, root->attrs, root->bound)
                    : b.create(OpKind::Pointwise, operands, names, {{"body", body()}}, root->bound);
    places.replaced(root, old, fused);
    replaceAllUses(old, fused->result(), &program);
    for (Op *op : llvm::reverse(order()))
      m.eraseOp(op);
  }

private:
  bool addOne(bool needsNone) {
    for (size_t i = 0; i < members.size(); ++i)
      for (Value *v : members[i]->operands) {
        if (!tryAdd(v))
          continue;
        if (!needsNone || !needsMemory())
          return true;
        members.pop_back();
      }
    return false;
  }

  bool tryAdd(Value *v) {
    Op *op = v->def;
    if (!op || members.contains(op) || barred.contains(op) || op->phase != root->phase ||
        !op->bound.empty() || v->type.dims != root->result()->type.dims ||
        llvm::is_contained(program.returns, v))
      return false;
    bool isBroadcast = op->kind == OpKind::Broadcast;
    if (isBroadcast ? !usersBroadcast(v) : !mayJoin(*op))
      return false;
    auto isInside = [&](Op *user) { return members.contains(user); };
    if (!llvm::all_of(v->users, isInside) || places.of(root) - places.of(op) > kFarthest ||
        places.waitsBetween(op, root))
      return false;
    members.insert(op);
    if (fits())
      return true;
    members.pop_back();
    return false;
  }

  // What the group reads.
  llvm::SmallSetVector<Value *, 8> reads() const {
    llvm::SmallSetVector<Value *, 8> list;
    for (Op *op : members)
      for (Value *v : op->operands)
        if (!v->def || !members.contains(v->def))
          list.insert(v);
    return list;
  }

  bool fits() const {
    auto in = reads();
    int steps = 0;
    bool f64 = false, narrow = false;
    std::vector<int64_t> dims;
    for (Op *op : members)
      steps += op->kind != OpKind::Broadcast;
    auto add = [&](DType t) {
      f64 = f64 || t == DType::F64;
      narrow = narrow || (isFloat(t) && t != DType::F64);
    };
    for (Op *op : members)
      add(op->result()->type.dtype);
    size_t rank = root->result()->type.dims.size();
    dims.assign(rank, 1);
    for (Value *v : in) {
      add(v->type.dtype);
      const auto &d = v->type.dims;
      for (size_t i = 0; i < d.size(); ++i)
        if (d[i] != 1)
          dims[rank - d.size() + i] = d[i];
    }
    return in.size() <= kPointwiseOperands && steps <= kPointwiseSteps && !(f64 && narrow) &&
           dims == root->result()->type.dims;
  }

  // Whether an op may write v's result over one of these values, which end there.
  bool writesOver(const Op &op, llvm::ArrayRef<Value *> values) const {
    const Type &to = op.result()->type;
    return llvm::any_of(values, [&](const Value *v) {
      return storageOf(v)->def && v->type.dims == to.dims &&
             byteSize(v->type.dtype) == byteSize(to.dtype) && places.end(v) <= places.of(&op);
    });
  }

  // Whether the plan would need more bytes anywhere from the first member to the root than with the ops one by one. Only
  // values that the group changes are added up.
  bool needsMemory() const {
    auto in = reads();
    llvm::SmallSetVector<const Value *, 8>
        kept; // storage of what is read, but for what is there anyway
    for (Value *v : in)
      if (storageOf(v)->def)
        kept.insert(storageOf(v));
    Op *first = order().front();
    const int last = places.of(root);
    int64_t after = 0, result = root->result()->type.bytes(), together = 0;
    for (const Value *v : kept)
      after += v->type.bytes();
    for (auto it = first->getIterator();; ++it) {
      const int at = places.of(&*it);
      int64_t before = 0;
      for (const Value *v : kept)
        before += places.end(v) >= at ? v->type.bytes() : 0;
      for (Op *op : members)
        if (places.of(op) <= at && (op == root || places.end(op->result()) >= at) &&
            !(places.of(op) == at && writesOver(*op, op->operands)))
          before += op->result()->type.bytes();
      // Members that follow each other up to the root have one peak.
      const bool isMember = members.contains(&*it) || it->info().isView();
      together = isMember ? std::max(together, before) : 0;
      if (at == last)
        return after + (writesOver(*root, in.getArrayRef()) ? 0 : result) > together;
      if (!isMember && after > before)
        return true;
    }
  }

  // DFS from the root: the order in which the text has steps, and operands.
  void number(Value *v) {
    bool isStep = v->def && members.contains(v->def);
    if (isStep && v->def->kind == OpKind::Broadcast)
      return number(v->def->operands[0]);
    if (!isStep) {
      operands.insert(v);
      return;
    }
    if (stepOf.count(v->def))
      return;
    for (Value *x : v->def->operands)
      number(x);
    stepOf[v->def] = static_cast<int>(stepOf.size());
    steps.push_back(v->def);
  }

  std::string body() const {
    PointwiseBody b;
    b.operands = static_cast<int>(operands.size());
    for (Op *op : steps) {
      PointwiseStep s{op->kind, op->attrs, static_cast<int>(op->operands.size()), {}};
      for (size_t i = 0; i < op->operands.size(); ++i)
        s.args[i] = valueOf(op->operands[i]);
      b.steps.push_back(std::move(s));
    }
    return pointwiseText(b);
  }
  int valueOf(Value *v) const {
    bool isStep = v->def && members.contains(v->def);
    if (isStep && v->def->kind == OpKind::Broadcast)
      return valueOf(v->def->operands[0]);
    if (isStep)
      return static_cast<int>(operands.size()) + stepOf.lookup(v->def);
    return static_cast<int>(llvm::find(operands, v) - operands.begin());
  }

  // Members by place, so that users are erased before what they read.
  llvm::SmallVector<Op *, 16> order() const {
    llvm::SmallVector<Op *, 16> list(members.begin(), members.end());
    llvm::sort(list, [&](Op *a, Op *b) { return places.of(a) < places.of(b); });
    return list;
  }

  Program &program;
  Places &places;
  Op *root;
  llvm::SmallSetVector<Op *, 16> members; // in the order of their joining
  llvm::SmallPtrSet<Op *, 8> barred;
  // Of the text:
  std::vector<Op *> steps;
  llvm::DenseMap<Op *, int> stepOf;
  struct Operands : llvm::SmallVector<Value *, 8> {
    void insert(Value *v) {
      if (!llvm::is_contained(*this, v))
        push_back(v);
    }
  } operands;
};

} // namespace

Status fusePointwise(Module &m, const PlanConfig &c) {
  if (c.fuse == "off")
    return {};
  for (Program *p : m.programs()) {
    Places places(*p);
    llvm::SmallVector<Op *, 64> ops;
    for (Op &op : p->ops)
      ops.push_back(&op);
    for (Op *op : llvm::reverse(ops)) {
      if (op->parent != p || !mayJoin(*op))
        continue;
      Group g(*p, places, op);
      if (g.size() > 1)
        g.replace(m);
    }
  }
  return {};
}

} // namespace ds
