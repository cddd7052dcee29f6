// SPDX-License-Identifier: Apache-2.0
//
// A MemoryWatch finds kernels that do not keep to their operands, and says which instruction it was. The faults
// are made by a device whose relu misbehaves in one way each.
#include "runtime/Trainer.h"
#include "test/unit/RuntimeModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

using namespace ds;
using namespace ds::test;

namespace {

float *data(const DsTensor &t) { return static_cast<float *>(t.data); }

void relu(const DsLaunch &l) {
  for (int64_t i = 0; i < elems(l.outs[0]); ++i)
    data(l.outs[0])[i] = std::max(0.0f, data(l.ins[0])[i]);
}

const char *good(const DsLaunch *l, void *) {
  relu(*l);
  return nullptr;
}
const char *writesBehind(const DsLaunch *l, void *) {
  relu(*l);
  data(l->outs[0])[elems(l->outs[0])] = 0;
  return nullptr;
}
const char *writesInFront(const DsLaunch *l, void *) {
  relu(*l);
  data(l->outs[0])[-2] = 7;
  return nullptr;
}
const char *readsBehind(const DsLaunch *l, void *) {
  relu(*l);
  float next;
  std::memcpy(&next, data(l->ins[0]) + elems(l->ins[0]), sizeof next);
  if (next != 0)
    data(l->outs[0])[0] = next;
  return nullptr;
}
const char *forgetsTheLast(const DsLaunch *l, void *) {
  for (int64_t i = 0; i + 1 < elems(l->outs[0]); ++i)
    data(l->outs[0])[i] = std::max(0.0f, data(l->ins[0])[i]);
  return nullptr;
}
const char *changesItsOperand(const DsLaunch *l, void *) {
  relu(*l);
  data(l->ins[0])[3] += 1;
  return nullptr;
}
const char *counts(const DsLaunch *l, void *) {
  thread_local float calls = 0;
  relu(*l);
  data(l->outs[0])[0] = ++calls;
  return nullptr;
}
const char *looksAtAddresses(const DsLaunch *l, void *) {
  relu(*l);
  data(l->outs[0])[0] =
      static_cast<float>(reinterpret_cast<uintptr_t>(l->outs[0].data) >> 12 & 0xffff);
  return nullptr;
}

Device withRelu(DsRunFn run) {
  static DsKernel kernel; // one test at a time
  kernel = {"relu", "f32", nullptr, run, nullptr, nullptr, nullptr};
  Device d = refDevice();
  d.kernels.insert(d.kernels.begin(),
                   {"faulty", [](const char *op, DType t) -> const DsKernel * {
                      return std::strcmp(op, "relu") == 0 && t == DType::F32 ? &kernel : nullptr;
                    }});
  return d;
}

// What the watch says of two updates on 2 ranks.
std::string watch(DsRunFn run) {
  RunOptions o;
  o.data = "synthetic:3";
  o.watch = true;
  auto t = Trainer::create(makeMlp(2, 2, 3), withRelu(run), o);
  EXPECT_TRUE(t.ok()) << t.status().str();
  for (int u = 0; u < 2; ++u)
    if (auto r = (*t)->step(); !r.ok())
      return r.status().str();
  EXPECT_GT((*t)->watched().first, (*t)->watched().second);
  EXPECT_GT((*t)->watched().second, 0);
  return "fine";
}

void expectFound(DsRunFn run, const std::string &message) {
  std::string said = watch(run);
  EXPECT_NE(said.find("(relu): " + message), std::string::npos) << said;
  EXPECT_NE(said.find("update 1: micro.first: "), std::string::npos) << said;
  EXPECT_NE(said.find("rank "), std::string::npos) << said;
}

TEST(MemoryWatch, GoodKernelsPass) { EXPECT_EQ(watch(good), "fine"); }

TEST(MemoryWatch, WritesOutside) {
  expectFound(writesBehind, "writes 1 bytes behind the end of an operand or destination");
  expectFound(writesInFront, "writes 8 bytes in front of an operand or destination");
}

TEST(MemoryWatch, ChangedOperand) { expectFound(changesItsOperand, "it changed device byte "); }

TEST(MemoryWatch, DependsOnMoreThanItsOperands) {
  const std::string message = "gives different results when its operands lie elsewhere";
  expectFound(readsBehind, message);
  expectFound(forgetsTheLast, message);
  expectFound(counts, message);
  expectFound(looksAtAddresses, message);
}

// Watched or not, the same training.
TEST(MemoryWatch, SameBitsAsWithStreams) {
  std::vector<double> weights[2];
  for (bool watch : {false, true}) {
    RunOptions o;
    o.data = "synthetic:3";
    o.watch = watch;
    auto t = Trainer::create(makeMlp(3, 3, 3), refDevice(), o);
    ASSERT_TRUE(t.ok()) << t.status().str();
    for (int u = 0; u < 3; ++u)
      ASSERT_TRUE((*t)->step().ok());
    auto w = (*t)->readParam("w1.weight");
    ASSERT_TRUE(w.ok()) << w.status().str();
    weights[watch] = *w;
  }
  EXPECT_EQ(weights[0], weights[1]);
}

} // namespace
