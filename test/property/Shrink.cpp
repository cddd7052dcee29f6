// SPDX-License-Identifier: Apache-2.0
#include "test/property/Shrink.h"

#include "frontend/ConfigFile.h"
#include "test/property/ShrinkOps.h"

namespace ds::property {

namespace {

// References to what node i makes become references to its first operand.
void dropNode(GraphSpec &g, size_t i) {
  size_t gone = g.floats.size() + i, instead = g.nodes[i].x % gone;
  g.nodes.erase(g.nodes.begin() + static_cast<ptrdiff_t>(i));
  for (size_t k = i; k < g.nodes.size(); ++k)
    for (size_t *v : {&g.nodes[k].x, &g.nodes[k].y}) {
      if (*v == gone)
        *v = instead;
      else if (*v > gone)
        --*v;
    }
}

void dropFloat(GraphSpec &g, size_t i) {
  g.floats.erase(g.floats.begin() + static_cast<ptrdiff_t>(i));
  for (NodeSpec &n : g.nodes)
    for (size_t *v : {&n.x, &n.y})
      if (*v == i)
        *v = 0;
      else if (*v > i)
        --*v;
}

class Shrinker {
public:
  Shrinker(CaseSpec spec, Failure failure, const Predicate &fails, int budget)
      : best{std::move(spec), {}, std::move(failure), 0}, fails(fails), budget(budget) {}

  Shrunk run() {
    do {
      changed = false;
      dropNodes();
      simplifyGraph();
      simplifyConfig();
    } while (changed && best.tried < budget);
    best.small = *makeCase(best.spec);
    best.tried += shrinkOps(best.small, best.failure, fails, budget);
    return best;
  }

private:
  template <typename F> bool attempt(F &&change) {
    if (best.tried >= budget)
      return false;
    CaseSpec next = best.spec;
    change(next);
    PlanConfig &c = next.config;
    next.partner.world = c.world, next.partner.gradAccum = c.gradAccum;
    next.partner.microBatch = c.microBatch;
    c.trainBatch = next.partner.trainBatch = c.world * c.gradAccum * c.microBatch;
    next.partner.optimizer = c.optimizer, next.partner.scheduler = c.scheduler;
    next.partner.clip = c.clip, next.partner.dtype = c.dtype, next.partner.loss = c.loss;
    if (!sameBits(c, next.partner))
      return false;
    ++best.tried;
    StatusOr<Case> made = makeCase(next);
    if (!made.ok())
      return false;
    Failure f = fails(*made);
    if (f.kind != best.failure.kind)
      return false;
    best.spec = std::move(next);
    best.failure = std::move(f);
    changed = true;
    return true;
  }

  // Halves first, then smaller runs down to single nodes, from the end.
  void dropNodes() {
    for (size_t run = std::max<size_t>(1, best.spec.graph.nodes.size() / 2); run > 0; run /= 2)
      for (size_t end = best.spec.graph.nodes.size(); end >= run;) {
        bool ok = attempt([&](CaseSpec &s) {
          for (size_t k = 0; k < run; ++k)
            dropNode(s.graph, end - 1 - k);
        });
        end -= ok ? run : 1;
      }
  }

  void simplifyGraph() {
    for (size_t i = best.spec.graph.nodes.size(); i-- > 0;) {
      const NodeSpec n = best.spec.graph.nodes[i];
      auto at = [i](CaseSpec &s) -> NodeSpec & { return s.graph.nodes[i]; };
      if (n.seed)
        attempt([&](CaseSpec &s) { at(s).seed = 0; });
      if (n.y != n.x)
        attempt([&](CaseSpec &s) { at(s).y = at(s).x; });
      if (n.x)
        attempt([&](CaseSpec &s) { at(s).x = 0; });
      if (n.layer)
        attempt([&](CaseSpec &s) { at(s).layer = 0; });
    }
    for (size_t i = best.spec.graph.floats.size(); i-- > 1;)
      attempt([&](CaseSpec &s) { dropFloat(s.graph, i); });
    for (size_t i = best.spec.graph.ids.size(); i-- > 0;)
      attempt([&](CaseSpec &s) { s.graph.ids.erase(s.graph.ids.begin() + ptrdiff_t(i)); });
    for (size_t i = 0; i < best.spec.graph.floats.size(); ++i)
      if (!best.spec.graph.floats[i].empty())
        attempt([&](CaseSpec &s) { s.graph.floats[i].pop_back(); });
    shrinkExtents();
    if (best.spec.graph.unused)
      attempt([](CaseSpec &s) { s.graph.unused = 0; }) ||
          attempt([](CaseSpec &s) { --s.graph.unused; });
    if (best.spec.graph.paths)
      attempt([](CaseSpec &s) { s.graph.paths = false; });
    if (best.spec.graph.loss != LossConfig::Kind::Mse)
      attempt([](CaseSpec &s) {
        s.graph.loss = LossConfig::Kind::Mse;
        s.config.loss = *parseLoss("mse:prediction=out,target=target");
      });
    if (best.spec.graph.headSeed)
      attempt([](CaseSpec &s) { s.graph.headSeed = 0; });
  }

  void shrinkExtents() {
    auto smaller = [&](auto &&field) {
      int64_t now = field(best.spec);
      for (int64_t n : {int64_t(1), int64_t(2), now / 2})
        if (n > 0 && n < now && attempt([&](CaseSpec &s) { field(s) = n; }))
          return;
    };
    for (size_t i = 0; i < best.spec.graph.floats.size(); ++i)
      for (size_t k = 0; k < best.spec.graph.floats[i].size(); ++k)
        smaller([i, k](CaseSpec &s) -> int64_t & { return s.graph.floats[i][k]; });
    for (size_t i = 0; i < best.spec.graph.ids.size(); ++i)
      smaller([i](CaseSpec &s) -> int64_t & { return s.graph.ids[i]; });
    for (size_t i = 0; i < best.spec.graph.sizes.size(); ++i)
      smaller([i](CaseSpec &s) -> int64_t & { return s.graph.sizes[i]; });
    smaller([](CaseSpec &s) -> int64_t & { return s.config.microBatch; });
    smaller([](CaseSpec &s) -> int64_t & { return s.config.world; });
    smaller([](CaseSpec &s) -> int64_t & { return s.config.gradAccum; });
    if (best.spec.updates > 1)
      attempt([](CaseSpec &s) { s.updates = 1; }) || attempt([](CaseSpec &s) { --s.updates; });
  }

  // Each setting of its own back to the default, or the partner's to the config's.
  void simplifyConfig() {
    const PlanConfig plain;
    auto set = [&](auto field, const auto &value) {
      if (!(best.spec.config.*field == value))
        attempt([&](CaseSpec &s) { s.config.*field = value; });
      if (!(best.spec.partner.*field == value))
        attempt([&](CaseSpec &s) { s.partner.*field = value; });
    };
    set(&PlanConfig::offloadOptimizer, std::string()); // first: other stages may refuse it
    set(&PlanConfig::offloadParam, std::string());
    set(&PlanConfig::offloadRatio, plain.offloadRatio);
    set(&PlanConfig::offloadBuffers, plain.offloadBuffers);
    set(&PlanConfig::subGroupSize, plain.subGroupSize);
    for (int64_t stage : {0, 1, 2})
      if (stage < best.spec.config.stage)
        attempt([&](CaseSpec &s) { s.config.stage = stage; });
    set(&PlanConfig::reduce, std::string());
    set(&PlanConfig::reduceBucketSize, plain.reduceBucketSize);
    set(&PlanConfig::allgatherBucketSize, plain.allgatherBucketSize);
    set(&PlanConfig::prefetchBucketSize, plain.prefetchBucketSize);
    set(&PlanConfig::keepGathered, plain.keepGathered);
    set(&PlanConfig::persistenceThreshold, plain.persistenceThreshold);
    set(&PlanConfig::overlap, plain.overlap);
    set(&PlanConfig::carry, plain.carry);
    set(&PlanConfig::recompute, plain.recompute);
    if (best.spec.partner.stage != best.spec.config.stage)
      attempt([](CaseSpec &s) { s.partner.stage = s.config.stage; });
    if (best.spec.config.clip != 0)
      attempt([](CaseSpec &s) { s.config.clip = 0; });
    if (!best.spec.config.scheduler.type.empty())
      attempt([](CaseSpec &s) { s.config.scheduler = {}; });
    if (!best.spec.config.dtype.empty())
      attempt([](CaseSpec &s) { s.config.dtype = ""; });
    OptimizerConfig sgd;
    sgd.type = "sgd";
    sgd.lr = best.spec.config.optimizer.lr;
    const OptimizerConfig &o = best.spec.config.optimizer;
    if (o.type != "sgd" || o.momentum != 0)
      attempt([&](CaseSpec &s) { s.config.optimizer = sgd; });
    if (o.weightDecay != 0)
      attempt([](CaseSpec &s) { s.config.optimizer.weightDecay = 0; });
    if (o.nesterov)
      attempt([](CaseSpec &s) { s.config.optimizer.nesterov = false; });
  }

  Shrunk best;
  const Predicate &fails;
  int budget;
  bool changed = false;
};

} // namespace

Shrunk shrink(const CaseSpec &spec, const Failure &failure, const Predicate &fails, int budget) {
  return Shrinker(spec, failure, fails, budget).run();
}

} // namespace ds::property
