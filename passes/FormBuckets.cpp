// SPDX-License-Identifier: Apache-2.0
//
// form-buckets: parameters become segments of flat padded buckets (D4).
//   matmul %x, @w1        ->   %w1.full = view @l0 at 0 : f32[64,256]; matmul %x, %w1.full
//   return .., %w1.grad   ->   %l0.grad = pack %w1.grad at 0, %b1.grad at 16384; return .., %l0.grad
// A bucket holds parameters that share (layer, dtype, trainable, small); a parameter used in several layers
// has its own. Membership does not depend on the stage. Segments start at multiples of kQuantum, the whole
// is padded to world x kQuantum. Running statistics have buckets of their own, whole on every rank, which one copy
// updates: copy %m -> @mean; copy %v -> @var   ->   %running.new = pack %m at 0, %v at 128; copy %running.new -> @running
// Trainable parameters without a gradient go to buckets that are not updated.
#include "passes/Layers.h"
#include "passes/Passes.h"

#include "ir/GraphBuilder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <map>

namespace ds {

namespace {

int64_t roundUp(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

struct Member {
  Symbol *param;
  Value *grad; // null: not updated
  bool small;
  int firstUse; // position of the first forward use
};

class BucketFormer {
public:
  BucketFormer(Module &m, Program &p, const PlanConfig &c) : module(m), program(p), config(c) {}

  Status run() {
    TRY(collectUpdates());
    collect();
    for (auto &[key, members] : groupsInOrder())
      splitBySize(key, members);
    llvm::erase_if(program.returns, [&](Value *v) { return packedGrads.count(v) != 0; });
    return {};
  }

private:
  struct Key {
    std::string layer;
    DType dtype;
    bool trainable, running, small;
    std::string tied; // name of a parameter with a bucket of its own
    auto operator<=>(const Key &) const = default;
  };

  // The copies that end a micro-batch's update of running statistics.
  Status collectUpdates() {
    for (Op &op : program.ops)
      for (Symbol *s : op.bound) {
        if (s->symbolKind != SymbolKind::Param)
          continue;
        Op *made = op.operands.empty() ? nullptr : op.operands[0]->def;
        if (op.kind != OpKind::Copy || !s->running || !made || made->kind != OpKind::Track)
          return Status::error("form-buckets: @" + s->name + " is changed by " +
                               std::string(op.info().text) + "; @" + program.name +
                               " may change only running parameters, by a copy of what track gives")
              .at(op.origin.node);
        updates[s] = &op;
      }
    return {};
  }

  void collect() {
    int n = 0;
    for (Op &op : program.ops)
      position[&op] = n++;
    llvm::DenseMap<llvm::StringRef, Value *> grads;
    for (Value *r : program.returns)
      grads[r->name] = r;
    for (Symbol *s : module.symbols()) {
      if (s->symbolKind != SymbolKind::Param)
        continue;
      auto g = grads.find(s->name + ".grad");
      Member m{s, g == grads.end() ? nullptr : g->second,
               s->type.elems() <= config.persistenceThreshold, n};
      for (Op *u : s->users)
        m.firstUse = std::min(m.firstUse, position.lookup(u));
      Key key{layerOf(*s), s->type.dtype, m.grad != nullptr,
              false,       m.small,       isTied(*s) ? s->name : ""};
      if (updates.count(s))
        key = {"running", s->type.dtype, false, true, false, ""};
      groups[key].push_back(m);
    }
  }

  // Buckets in the order in which the forward phase first needs them.
  std::vector<std::pair<Key, std::vector<Member>>> groupsInOrder() {
    std::vector<std::pair<Key, std::vector<Member>>> order;
    for (auto &[key, members] : groups) {
      std::stable_sort(members.begin(), members.end(),
                       [](const Member &a, const Member &b) { return a.firstUse < b.firstUse; });
      order.emplace_back(key, members);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto &a, const auto &b) {
      return a.second.front().firstUse < b.second.front().firstUse;
    });
    return order;
  }

  // The config's bucket sizes are upper bounds in elements; a larger parameter has a bucket alone.
  void splitBySize(const Key &key, llvm::ArrayRef<Member> members) {
    int64_t limit =
        std::max<int64_t>(1, std::min(config.reduceBucketSize, config.allgatherBucketSize));
    std::vector<Member> part;
    int64_t used = 0;
    for (const Member &m : members) {
      int64_t n = m.param->type.elems();
      if (!part.empty() && used + n > limit) {
        makeBucket(key, part);
        part.clear();
        used = 0;
      }
      part.push_back(m);
      used += n;
    }
    makeBucket(key, part);
  }

  std::string bucketName(const Key &key) {
    std::string base = !key.tied.empty() ? key.tied : key.layer;
    if (base.empty())
      base = "params";
    // The layer's name is free for the bucket unless a parameter has it.
    if (Symbol *s = module.symbol(base); s && s->symbolKind == SymbolKind::Param)
      base += ".bucket";
    return module.uniqueSymbolName(base + (key.small ? ".small" : "") +
                                   (key.trainable || key.running ? "" : ".frozen"));
  }

  void makeBucket(const Key &key, llvm::ArrayRef<Member> members) {
    int64_t end = 0;
    std::vector<Segment> segments;
    for (const Member &m : members) {
      Symbol *p = m.param;
      segments.push_back({p->name, end, p->type.dims, 0, p->source, p->exportName});
      end = roundUp(end + p->type.elems(), kQuantum);
    }
    int64_t elems = std::max(roundUp(end, config.world * kQuantum), config.world * kQuantum);
    Symbol *bucket =
        module.addSymbol(SymbolKind::Bucket, bucketName(key), Type(key.dtype, {elems}));
    bucket->segments = segments;
    bucket->trainable = key.trainable;
    bucket->running = key.running;
    bucket->resident = key.small || key.running;
    if (key.running)
      packStatistics(*bucket, members);
    for (size_t i = 0; i < members.size(); ++i)
      viewAtUses(*bucket, segments[i], members[i].param);
    if (key.trainable)
      packGradients(*bucket, members);
    for (const Member &m : members)
      module.eraseSymbol(m.param);
  }

  void viewAtUses(Symbol &bucket, const Segment &s, Symbol *param) {
    if (param->users.empty())
      return;
    Builder b(module, program);
    b.origin.pass = "form-buckets";
    b.before = param->users[0];
    for (Op *u : param->users)
      b.before = isBefore(u, b.before) ? u : b.before;
    b.phase = b.before->phase;
    b.origin.module = b.before->origin.module;
    Value *view =
        b.op(OpKind::View, {&bucket}, param->name + ".full", {{"at", s.at}, {"dims", s.shape}});
    replaceAllUses(param, view);
  }

  void packGradients(Symbol &bucket, llvm::ArrayRef<Member> members) {
    llvm::SmallVector<Value *, 8> grads;
    std::vector<int64_t> at;
    for (size_t i = 0; i < members.size(); ++i) {
      grads.push_back(members[i].grad);
      at.push_back(bucket.segments[i].at);
    }
    llvm::SmallVector<Op *, 8> makers;
    for (Value *g : grads)
      makers.push_back(g->def);
    Builder b = builderBehind(makers);
    packedGrads.insert(grads.begin(), grads.end());
    DType sent = config.commType == "fp32" ? accumType(bucket.type.dtype) : bucket.type.dtype;
    for (Value *&g : grads)
      if (g->type.dtype != sent)
        g = b.op(OpKind::Cast, {g}, g->name + "." + std::string(text(sent)),
                 {{"to", std::string(text(sent))}});
    Value *packed = b.op(OpKind::Pack, grads, bucket.name + ".grad",
                         {{"at", at}, {"elems", bucket.type.dims[0]}});
    program.returns.push_back(packed);
  }

  // One copy in place of every parameter's own.
  void packStatistics(Symbol &bucket, llvm::ArrayRef<Member> members) {
    llvm::SmallVector<Value *, 16> news;
    llvm::SmallVector<Op *, 16> copies;
    std::vector<int64_t> at;
    for (size_t i = 0; i < members.size(); ++i) {
      copies.push_back(updates.lookup(members[i].param));
      news.push_back(copies.back()->operands[0]);
      at.push_back(bucket.segments[i].at);
    }
    Builder b = builderBehind(copies);
    Value *packed = b.op(OpKind::Pack, news, bucket.name + ".new",
                         {{"at", at}, {"elems", bucket.type.dims[0]}});
    b.create(OpKind::Copy, {packed}, {}, {}, {&bucket});
    for (Op *op : copies)
      module.eraseOp(op);
  }

  // Behind the last of the ops, in its phase.
  Builder builderBehind(llvm::ArrayRef<Op *> ops) {
    Op *last = ops[0];
    for (Op *op : ops)
      last = isBefore(last, op) ? op : last;
    Builder b(module, program);
    b.phase = last->phase;
    b.origin = {last->origin.node, last->origin.module, "form-buckets"};
    auto next = std::next(last->getIterator());
    b.before = next == program.ops.end() ? nullptr : &*next;
    return b;
  }

  // Of ops that were there before: users of parameters and definitions of gradients.
  bool isBefore(Op *a, Op *b) const { return position.lookup(a) < position.lookup(b); }

  Module &module;
  Program &program;
  const PlanConfig &config;
  llvm::DenseMap<Op *, int> position;
  llvm::DenseMap<Symbol *, Op *> updates; // of running statistics
  llvm::DenseSet<Value *> packedGrads;    // no longer returned by themselves
  std::map<Key, std::vector<Member>> groups;
};

} // namespace

Status formBuckets(Module &m, const PlanConfig &c) {
  return BucketFormer(m, *m.program("micro"), c).run();
}

} // namespace ds
