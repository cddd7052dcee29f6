// SPDX-License-Identifier: Apache-2.0
//
// The property test itself (test/property): that it draws every op, that damage is found, that failures become small and
// that their files replay. `property` runs the seeds.
#include "test/property/Rows.h"
#include "test/property/Shrink.h"

#include "frontend/ConfigTable.h"
#include "ir/GraphText.h"
#include "kernels/Registry.h"

#include <gtest/gtest.h>

#include <set>

using namespace ds;
using namespace ds::property;

namespace {

std::set<OpKind> opsOf(const Case &c) {
  auto m = readModule(c, /*whole=*/false);
  EXPECT_TRUE(m.ok()) << m.status().str();
  std::set<OpKind> ops;
  for (Op &op : (*m)->program("micro")->ops)
    ops.insert(op.kind);
  return ops;
}

size_t opCount(const Case &c) { return (*readModule(c, false))->program("micro")->ops.size(); }

// A new op needs a row of the generator, or a reason.
TEST(Property, EveryOpHasARow) {
  std::set<OpKind> drawn, explained;
  for (const Row &r : rows())
    drawn.insert(r.ops.begin(), r.ops.end());
  for (const auto &[op, reason] : notDrawn())
    explained.insert(op);
  for (const std::string &name : opTexts()) {
    OpKind k = *opFromText(name);
    EXPECT_EQ(drawn.count(k) + explained.count(k), 1u) << name;
  }
}

TEST(Property, SeedsDrawEveryRow) {
  std::set<OpKind> seen;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    auto c = makeCase(drawCase(seed));
    ASSERT_TRUE(c.ok()) << "seed " << seed << "\n" << c.status().str();
    seen.merge(opsOf(*c));
  }
  for (const Row &r : rows())
    for (OpKind k : r.ops)
      EXPECT_TRUE(seen.count(k)) << r.name << " " << info(k).text;
}

// What a seed draws beside ops; every one must be common enough for the daily seeds to have some.
std::set<std::string> featuresOf(const Case &c) {
  std::set<std::string> has;
  auto m = readModule(c, false);
  for (Symbol *s : (*m)->symbols()) {
    if (s->symbolKind != SymbolKind::Param)
      continue;
    std::set<std::string> nodes; // ops are named after their node: n3.matmul
    for (Op *u : s->users)
      nodes.insert(u->result()->name.substr(0, u->result()->name.find('.')));
    has.insert(nodes.empty() ? "unused" : s->trainable ? "trained" : "frozen");
    if (nodes.size() > 1)
      has.insert(c.paths.empty() ? "tied" : "tied across paths");
    has.insert(s->type.elems() < c.config.world                   ? "smaller than the world"
               : s->type.elems() > kQuantum && c.config.world > 1 ? "on several ranks"
                                                                  : "padded");
  }
  for (const PlanConfig *p : {&c.config, &c.partner}) {
    has.insert("stage " + std::to_string(p->stage));
    has.insert("reduce " + p->reduce);
    has.insert(p->overlap ? "overlap" : "no overlap");
    has.insert(p->prefetchBucketSize ? "prefetch" : "no prefetch");
    has.insert("bucket " + std::to_string(p->reduceBucketSize));
    has.insert(p->optimizer.type);
    has.insert(p->optimizer.nesterov ? "nesterov" : "no nesterov");
    has.insert(p->optimizer.weightDecay != 0 ? "decay" : "no decay");
    has.insert(p->clip != 0 ? "clip" : "no clip");
    has.insert(p->scheduler.type.empty() ? "constant" : p->scheduler.type);
    has.insert("carry " + p->carry);
    has.insert("dtype " + p->dtype);
    has.insert(p->recompute.empty() ? "recompute nothing" : "recompute");
    has.insert("optimizer on " + p->offloadOptimizer);
    has.insert("parameters on " + p->offloadParam);
    if (p->offloadOptimizer.empty())
      continue;
    bool runsOn = p->overlap && p->carry != "off";
    has.insert(runsOn ? "host updates run on" : "host updates end");
    has.insert(p->offloadRatio < 1 ? "a part on the host" : "all on the host");
    has.insert(p->offloadBuffers == 1 ? "one buffer" : "buffers");
  }
  has.insert("world " + std::to_string(c.config.world));
  has.insert("accumulation " + std::to_string(c.config.gradAccum));
  has.insert("loss " + c.config.loss.text.substr(0, c.config.loss.text.find(':')));
  has.insert(c.config.loss.shift ? "shift" : "no shift");
  for (Value *in : (*m)->program("micro")->inputs)
    has.insert("input " + std::string(text(in->type.dtype)));
  return has;
}

TEST(Property, TheDailySeedsDrawEveryFeature) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 60; ++seed)
    seen.merge(featuresOf(*makeCase(drawCase(seed))));
  for (const char *wanted : {"unused",
                             "frozen",
                             "trained",
                             "tied",
                             "tied across paths",
                             "smaller than the world",
                             "on several ranks",
                             "stage 0",
                             "stage 1",
                             "stage 2",
                             "stage 3",
                             "reduce every",
                             "reduce boundary",
                             "reduce ",
                             "overlap",
                             "no overlap",
                             "prefetch",
                             "no prefetch",
                             "bucket 1",
                             "bucket 7",
                             "bucket 500000000",
                             "sgd",
                             "adam",
                             "adamw",
                             "nesterov",
                             "decay",
                             "no decay",
                             "clip",
                             "no clip",
                             "constant",
                             "WarmupLR",
                             "WarmupDecayLR",
                             "WarmupCosineLR",
                             "carry ",
                             "carry on",
                             "carry off",
                             "recompute nothing",
                             "recompute",
                             "optimizer on cpu",
                             "optimizer on nvme",
                             "parameters on cpu",
                             "parameters on nvme",
                             "host updates run on",
                             "host updates end",
                             "a part on the host",
                             "all on the host",
                             "one buffer",
                             "buffers",
                             "dtype ",
                             "dtype f32",
                             "dtype f64",
                             "world 1",
                             "world 2",
                             "world 3",
                             "world 4",
                             "world 5",
                             "world 6",
                             "world 7",
                             "world 8",
                             "accumulation 1",
                             "accumulation 2",
                             "accumulation 3",
                             "accumulation 4",
                             "loss ce",
                             "loss mse",
                             "loss output",
                             "shift",
                             "input f32",
                             "input i64",
                             "input i32"})
    EXPECT_TRUE(seen.count(wanted)) << wanted;
}

TEST(Property, FilesHoldTheWholeCase) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto c = makeCase(drawCase(seed));
    ASSERT_TRUE(c.ok());
    auto again = parseCase(caseText(*c, "bits: two\nlines"), "case.dsir");
    ASSERT_TRUE(again.ok()) << again.status().str();
    for (bool whole : {false, true})
      EXPECT_EQ(printModule(**readModule(*again, whole)), printModule(**readModule(*c, whole)));
    EXPECT_EQ(again->paths, c->paths);
    EXPECT_EQ(again->updates, c->updates);
    EXPECT_EQ(again->dataSeed, c->dataSeed);
    for (const ConfigKey &k : configTable()) {
      EXPECT_EQ(k.json(again->config), k.json(c->config)) << k.path;
      EXPECT_EQ(k.json(again->partner), k.json(c->partner)) << k.path;
    }
  }
  EXPECT_FALSE(parseCase("module @m {\n}\n", "one.dsir").ok());
  EXPECT_FALSE(parseCase("// config dsplan.world_size=2\n// -----\n", "pair.dsir").ok());
}

// A fault of "attention at stage 3": nothing else must remain.
TEST(Property, ShrinksToTheCause) {
  Predicate fails = [](const Case &c) -> Failure {
    bool hit = opsOf(c).count(OpKind::Trilu) && c.config.stage == 3;
    return hit ? Failure{"fault", "trilu at stage 3"} : Failure{};
  };
  int found = 0;
  for (uint64_t seed = 1; seed <= 600 && found < 3; ++seed) {
    CaseSpec spec = drawCase(seed);
    Failure f = fails(*makeCase(spec));
    if (!f)
      continue;
    ++found;
    Shrunk s = shrink(spec, f, fails);
    const Case &small = s.small;
    EXPECT_TRUE(fails(small)) << "seed " << seed;
    EXPECT_LE(s.spec.graph.nodes.size(), 2u) << small.module;
    EXPECT_LE(opCount(small), 9u) << small.module;
    EXPECT_EQ(small.config.stage, 3);
    EXPECT_EQ(small.config.trainBatch, 1);
    EXPECT_EQ(small.updates, 1);
    EXPECT_EQ(small.config.optimizer.type, "sgd");
    EXPECT_EQ(small.config.clip, 0);
    EXPECT_TRUE(small.config.scheduler.type.empty());
    EXPECT_EQ(small.config.reduceBucketSize, PlanConfig().reduceBucketSize);
    EXPECT_EQ(s.spec.graph.unused, 0);
  }
  EXPECT_EQ(found, 3);
}

// `op` runs as `instead` does.
Device damaged(const std::string &op, const std::string &instead) {
  auto find = [=](const char *name, DType t) {
    return findKernel(refKernels(), name == op ? instead.c_str() : name, t);
  };
  return {"ref", {{"ref", find}}};
}

// The first seed that the damage makes fail is found, shrunk, and its file fails with the damage only. Ops stay apart: what
// joins another is not looked up by its name.
void expectFound(const Device &device, const std::string &kind, OpKind cause, size_t mostOps) {
  auto checkApart = [](Case c, const Device &d) {
    c.config.fuse = c.partner.fuse = "off";
    return check(c, d);
  };
  Predicate fails = [&](const Case &c) { return checkApart(c, device); };
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CaseSpec spec = drawCase(seed);
    Case drawn = *makeCase(spec);
    bool mayHit =
        cause == OpKind::Accumulate ? drawn.config.gradAccum > 1 : opsOf(drawn).count(cause) != 0;
    Failure f = mayHit ? fails(drawn) : Failure{}; // the others take time and cannot fail
    if (!f)
      continue;
    EXPECT_EQ(f.kind, kind) << f.text;
    Shrunk s = shrink(spec, f, fails, 80);
    EXPECT_LE(opCount(s.small), mostOps) << s.small.module;
    auto file = parseCase(caseText(s.small, f.text), "case.dsir");
    ASSERT_TRUE(file.ok()) << file.status().str();
    if (cause != OpKind::Accumulate) {
      EXPECT_TRUE(opsOf(*file).count(cause)) << file->module;
    }
    EXPECT_EQ(checkApart(*file, device).kind, kind);
    EXPECT_FALSE(checkApart(*file, refDevice())) << checkApart(*file, refDevice()).text;
    return;
  }
  ADD_FAILURE() << "no seed finds the damage";
}

// A wrong gradient: only differences can tell.
TEST(Property, FindsAWrongGradient) {
  expectFound(damaged("relu_grad", "tanh_grad"), "gradient", OpKind::Relu, 6);
}

// Micro-batches behind the first get lost: the same on every stage, so only one whole batch can tell.
TEST(Property, FindsLostMicroBatches) {
  expectFound(damaged("accumulate", "copy"), "reference", OpKind::Accumulate, 4);
}

} // namespace
