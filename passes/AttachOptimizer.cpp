// SPDX-License-Identifier: Apache-2.0
//
// attach-optimizer: keeps gradients in accumulators and adds the update program.
//   return %loss, %l0.grad   ->   accumulate @loss.acc, %loss -> @loss.acc
//                                 accumulate @l0.acc, %l0.grad -> @l0.acc
//   program @update: norm of all gradients, clip factor and skip flag, one optimizer op per bucket, then the
//   schedule's tick and the counters, all predicated by the skip flag.
// Update k runs at tick max(0, k-2), as DeepSpeed's does: it uses the entry value of @lr and then sets the next.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"
#include "passes/Precision.h"

#include <fmt/format.h>

#include <cmath>

namespace ds {

namespace {

class OptimizerAttacher {
public:
  OptimizerAttacher(Module &m, const PlanConfig &c)
      : module(m), config(c), opt(c.optimizer), micro(*m.program("micro")),
        update(*m.addProgram("update")), b(m, update) {
    b.phase = Phase::Update;
    b.origin.pass = "attach-optimizer";
  }

  Status run() {
    bool adam = opt.type == "adam" || opt.type == "adamw";
    if (!adam && opt.type != "sgd")
      return Status::error("optimizer.type '" + opt.type +
                           "' is not supported; known are adam, adamw, sgd");
    scalars(adam);
    TRY(accumulate());
    Value *loss = b.op(OpKind::Copy, {lossAcc}, "loss");
    Value *bins = b.op(OpKind::SumSquares, accs, "grad_bins");
    llvm::SmallVector<Value *, 2> clipped = {bins};
    scale = findLossScale(module);
    if (scale)
      clipped.push_back(scale);
    Op *clip = b.create(OpKind::ClipFactor, clipped, {"grad_norm", "clip", "skip"},
                        {{"max_norm", config.clip}});
    Value *factor = clip->result(1), *skip = clip->result(2);
    for (auto [bucket, acc] : llvm::zip(buckets, accs))
      addOptimizer(adam, *bucket, acc, factor, skip);
    tick(adam, skip);
    update.returns.assign({loss, clip->result(0), factor, skip});
    return {};
  }

private:
  Symbol *scalar(const char *name, DType d, std::vector<int64_t> dims, double v) {
    Symbol *s = module.addSymbol(SymbolKind::Scalar, module.uniqueSymbolName(name), Type(d, dims));
    s->source.kind = Source::Kind::Splat;
    s->source.value = v;
    return s;
  }

  // The scheduler's lr at tick 0, which the first update uses.
  double initialLr() const {
    const std::string &type = config.scheduler.type;
    return type.empty() ? opt.lr : type == "WarmupCosineLR" ? 0 : config.scheduler.minLr;
  }

  void scalars(bool adam) {
    lr = scalar("lr", DType::F64, {1}, initialLr());
    decay = scalar("decay", DType::F64, {1}, opt.weightDecay);
    step = scalar("step", DType::I64, {}, 0);
    if (adam) {
      b1t = scalar("b1t", DType::F64, {}, 1);
      b2t = scalar("b2t", DType::F64, {}, 1);
    }
  }

  Symbol *persistent(SymbolKind kind, const std::string &name, const Type &like) {
    return module.addSymbol(kind, module.uniqueSymbolName(name),
                            Type(accumType(like.dtype), like.dims));
  }

  // form-buckets returns the loss and one gradient per trainable bucket, in the buckets' order.
  Status accumulate() {
    for (Symbol *s : module.symbols())
      if (s->symbolKind == SymbolKind::Bucket && s->trainable)
        buckets.push_back(s);
    if (micro.returns.size() != buckets.size() + 1)
      return Status::error(fmt::format("attach-optimizer: {} trainable buckets, but @micro returns "
                                       "{} gradients",
                                       buckets.size(), micro.returns.size() - 1));
    Builder mb(module, micro);
    mb.origin.pass = "attach-optimizer";
    mb.phase = Phase::Backward;
    Value *loss = micro.returns[0];
    llvm::SmallVector<Value *, 16> grads(micro.returns.begin() + 1, micro.returns.end());
    micro.returns.clear();
    lossAcc = persistent(SymbolKind::Accum, "loss.acc", loss->type);
    mb.create(OpKind::Accumulate, {lossAcc, loss}, {}, {}, {lossAcc});
    for (auto [bucket, g] : llvm::zip(buckets, grads)) {
      Symbol *acc = persistent(SymbolKind::Accum, bucket->name + ".acc", g->type);
      auto next = std::next(g->def->getIterator());
      mb.before = next == micro.ops.end() ? nullptr : &*next;
      mb.origin.module = g->def->origin.module;
      mb.create(OpKind::Accumulate, {acc, g}, {}, {}, {acc});
      accs.push_back(acc);
    }
    return {};
  }

  Symbol *state(const Symbol &bucket, const char *suffix) {
    return persistent(SymbolKind::State, bucket.name + suffix, bucket.type);
  }

  // Weights of 16 bits are rounded from a master, which is what the optimizer updates:
  //   %l0.master.new = adam ..., @l0.master, ... -> @l0.m, @l0.v
  //   cast %l0.master.new {to="bf16"} -> @l0
  void addOptimizer(bool adam, Symbol &bucket, Value *acc, Value *factor, Value *skip) {
    bool isRounded = accumType(bucket.type.dtype) != bucket.type.dtype;
    Symbol *master = isRounded ? state(bucket, ".master") : &bucket;
    llvm::SmallVector<std::string, 1> names;
    llvm::SmallVector<Symbol *, 3> bound;
    if (isRounded)
      names.push_back(master->name + ".new");
    else
      bound.push_back(master);
    Op *op = adam ? addAdam(bucket, *master, names, bound, {acc, factor, skip})
                  : addSgd(bucket, *master, names, bound, {acc, factor, skip});
    if (isRounded)
      b.create(OpKind::Cast, {op->result()}, {}, {{"to", std::string(text(bucket.type.dtype))}},
               {&bucket});
  }

  struct Inputs {
    Value *acc, *factor, *skip;
  };
  using Names = llvm::ArrayRef<std::string>;
  using Bound = llvm::SmallVector<Symbol *, 3>;

  Op *addAdam(Symbol &bucket, Symbol &p, Names names, Bound bound, Inputs in) {
    Symbol *m = state(bucket, ".m"), *v = state(bucket, ".v");
    bound.append({m, v});
    return b.create(OpKind::Adam, {in.acc, &p, m, v, lr, decay, in.factor, in.skip, b1t, b2t},
                    names,
                    {{"b1", opt.beta1},
                     {"b2", opt.beta2},
                     {"eps", opt.eps},
                     {"decoupled", opt.type == "adamw" || opt.adamWMode},
                     {"bias_correction", opt.biasCorrection}},
                    bound);
  }

  Op *addSgd(Symbol &bucket, Symbol &p, Names names, Bound bound, Inputs in) {
    Symbol *m = state(bucket, ".m");
    bound.push_back(m);
    return b.create(
        OpKind::Sgd, {in.acc, &p, m, lr, decay, in.factor, in.skip}, names,
        {{"momentum", opt.momentum}, {"dampening", opt.dampening}, {"nesterov", opt.nesterov}},
        bound);
  }

  void tick(bool adam, Value *skip) {
    const SchedulerConfig &s = config.scheduler;
    if (!s.type.empty()) {
      bool cosine = s.type == "WarmupCosineLR", decays = s.type == "WarmupDecayLR";
      b.create(OpKind::LrSchedule, {lr, step, skip}, {},
               {{"kind", std::string(cosine   ? "warmup_cosine"
                                     : decays ? "warmup_decay"
                                              : "warmup")},
                {"min", cosine ? s.minRatio : s.minLr},
                {"max", cosine ? opt.lr : s.maxLr.value_or(opt.lr)},
                {"warmup", std::max<int64_t>(2, s.warmupSteps)},
                {"log", s.logWarmup},
                {"total", s.totalSteps.value_or(0)},
                {"floor", cosine ? s.cosMinRatio : 0.0}},
               {lr});
    }
    b.create(OpKind::Advance, {step, skip}, {}, {{"add", 1.0}}, {step});
    if (scale && config.precision.isDynamic())
      tickScale(skip);
    if (!adam)
      return;
    b.create(OpKind::Advance, {b1t, skip}, {}, {{"mul", opt.beta1}}, {b1t});
    b.create(OpKind::Advance, {b2t, skip}, {}, {{"mul", opt.beta2}}, {b2t});
  }

  void tickScale(Value *skip) {
    const PrecisionConfig &p = config.precision;
    Symbol *since = scalar("scale_since", DType::I64, {}, 1);
    Symbol *left = scalar("scale_left", DType::I64, {}, static_cast<double>(p.hysteresis));
    b.create(OpKind::LossScale, {scale, since, left, skip}, {},
             {{"window", p.window},
              {"hysteresis", p.hysteresis},
              {"consecutive", p.consecutiveHysteresis},
              {"min", p.minScale}},
             {scale, since, left});
  }

  Module &module;
  const PlanConfig &config;
  const OptimizerConfig &opt;
  Program &micro, &update;
  Builder b;
  Symbol *lr = nullptr, *decay = nullptr, *step = nullptr, *b1t = nullptr, *b2t = nullptr;
  Symbol *lossAcc = nullptr, *scale = nullptr;
  llvm::SmallVector<Symbol *, 16> buckets;
  llvm::SmallVector<Value *, 16> accs; // of the buckets, in their order
};

} // namespace

Status attachOptimizer(Module &m, const PlanConfig &c) { return OptimizerAttacher(m, c).run(); }

} // namespace ds
