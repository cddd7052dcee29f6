// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include "ir/Bins.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ds::optest {
namespace {

using List = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(RefBucket, PackLaysOperandsAndClearsGaps) {
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::Bool}) {
    Tensor a = uniform(t, {2, 3}, 1), b = uniform(t, {}, 2), c(t, {0}, {});
    Outcome o =
        run({OpKind::Pack, {{"at", List{2, 9, 12}}, {"elems", int64_t(12)}}, {a, b, c}, {}, false});
    ASSERT_EQ(o.error, "");
    expectEqual(o.outs[0], tabulate(t, {12}, [&](const Dims &i) {
                  return i[0] == 9 ? b.v[0] : i[0] >= 2 && i[0] < 8 ? a.v[i[0] - 2] : 0;
                }));
  }
}

// A producer may have written an operand into its place in the bucket already.
TEST(RefBucket, PackKeepsWhatLiesInPlace) {
  std::vector<float> bucket = {9, 9, 1, 2, 3, 9, 9, 9}, other = {5};
  const int64_t three = 3, one = 1, eight = 8, step = 1;
  DsTensor ins[] = {{bucket.data() + 2, &three, &step, 1, uint8_t(DType::F32)},
                    {other.data(), &one, &step, 1, uint8_t(DType::F32)}};
  DsTensor out = {bucket.data(), &eight, &step, 1, uint8_t(DType::F32)};
  const int64_t at[] = {2, 6};
  DsAttr attrs[] = {{"at", 'l', 0, 0, nullptr, at, 2}, {"elems", 'i', 8, 0, nullptr, nullptr, 0}};
  DsLaunch launch = {};
  launch.ins = ins;
  launch.numIns = 2;
  launch.outs = &out;
  launch.numOuts = 1;
  launch.attrs = attrs;
  launch.numAttrs = 2;
  EXPECT_EQ(findKernel(refKernels(), "pack", DType::F32)->run(&launch, nullptr), nullptr);
  EXPECT_EQ(bucket, (std::vector<float>{0, 0, 1, 2, 3, 0, 5, 0}));
}

TEST(RefBucket, Accumulate) {
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::I64}) {
    DType sum = isFloat(t) ? accumType(t) : t;
    Tensor v = uniform(t, {3, 5}, 3, -9, 9), acc = uniform(sum, {3, 5}, 4, -9, 9);
    expectEqual(run1(OpKind::Accumulate, {v}, {{"first", true}}), Tensor(sum, v.dims, v.v));
    expectEqual(run1(OpKind::Accumulate, {acc, v}),
                tabulate(sum, v.dims, [&](const Dims &i) { return acc.at(i) + v.at(i); }));
  }
}

TEST(RefUpdate, SumSquaresCountsRunsOnly) {
  for (DType t : {DType::F32, DType::F64}) {
    Tensor a = uniform(t, {512}, 5), b = uniform(t, {128}, 6);
    std::vector<DsRun> runs = {{0, 200, 0}, {256, 300, 1}}; // b has no list: all of it counts
    Outcome o = run({OpKind::SumSquares, {}, {a, b}, {runs, {}}, false});
    ASSERT_EQ(o.error, "");
    double want = 0;
    for (double x : b.v)
      want += x * x;
    for (int i = 0; i < 512; ++i)
      want += i < 200 || (i >= 256 && i < 300) ? a.v[i] * a.v[i] : 0;
    std::vector<int64_t> bins(o.outs[0].v.begin(), o.outs[0].v.end());
    EXPECT_NEAR(binsValue(bins.data()), want, 1e-12 * want);
  }
}

// However a vector is cut into shards at multiples of the quantum, the bins add up to the same integers.
TEST(RefUpdate, SumSquaresDoesNotDependOnTheCut) {
  Tensor whole = uniform(DType::F32, {1024}, 7, -1e3, 1e3);
  auto bins = [&](int64_t begin, int64_t end) {
    Tensor part(DType::F32, {end - begin}, {whole.v.begin() + begin, whole.v.begin() + end});
    return run({OpKind::SumSquares, {}, {part}, {}, false}).outs[0].v;
  };
  std::vector<double> all = bins(0, 1024);
  for (int64_t cut : {128, 384, 512}) {
    std::vector<double> left = bins(0, cut), right = bins(cut, 1024);
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(left[i] + right[i], all[i]);
  }
}

Outcome clip(std::vector<double> gradient, double maxNorm) {
  auto n = static_cast<int64_t>(gradient.size());
  Tensor bins =
      run({OpKind::SumSquares, {}, {Tensor(DType::F32, {n}, std::move(gradient))}, {}, false})
          .outs[0];
  return run({OpKind::ClipFactor, {{"max_norm", maxNorm}}, {bins}});
}

TEST(RefUpdate, ClipFactor) {
  Outcome o = clip({3, 4}, 1);
  EXPECT_EQ(o.outs[0].v[0], 5);
  EXPECT_DOUBLE_EQ(o.outs[1].v[0], 1 / (5 + 1e-6));
  EXPECT_EQ(o.outs[2].v[0], 0);
  EXPECT_EQ(clip({3, 4}, 6).outs[1].v[0], 1);
  EXPECT_EQ(clip({3, 4}, 0).outs[1].v[0], 1);
  EXPECT_EQ(clip({0, 0}, 1).outs[0].v[0], 0);
  for (double bad : {kInf, std::nan("")}) {
    Outcome skipped = clip({1, bad}, 1);
    EXPECT_EQ(skipped.outs[0].v[0], kInf);
    EXPECT_EQ(skipped.outs[2].v[0], 1);
  }
}

TEST(RefUpdate, InvCount) {
  auto inv = [](double n) { return run1(OpKind::InvCount, {scalar(n)}).v.at(0); };
  EXPECT_EQ(inv(0), 0);
  EXPECT_EQ(inv(8), 0.125);
}

TEST(RefUpdate, AdvanceUnlessSkipped) {
  Attrs count = {{"add", 1.0}}, decay = {{"mul", 0.5}};
  Tensor step(DType::I64, {}, {41});
  EXPECT_EQ(run1(OpKind::Advance, {step, flagTensor(false)}, count).v[0], 42);
  EXPECT_EQ(run1(OpKind::Advance, {step, flagTensor(true)}, count).v[0], 41);
  EXPECT_EQ(run1(OpKind::Advance, {scalar(3), flagTensor(false)}, decay).v[0], 1.5);
  EXPECT_EQ(run1(OpKind::Advance, {scalar(3), flagTensor(true)}, decay).v[0], 3);
}

TEST(RefUpdate, LrSchedules) {
  auto rate = [](const char *kind, int64_t step, bool log, bool skip = false) {
    Attrs attrs = {{"kind", std::string(kind)}, {"min", 0.1},           {"max", 1.1},
                   {"warmup", int64_t(10)},     {"total", int64_t(30)}, {"log", log}};
    Tensor lr(DType::F64, {2}, {7, 8});
    return run1(OpKind::LrSchedule, {lr, Tensor(DType::I64, {}, {double(step)}), flagTensor(skip)},
                attrs)
        .v;
  };
  using V = std::vector<double>;
  EXPECT_EQ(rate("constant", 3, false), (V{7, 8}));
  EXPECT_EQ(rate("warmup", 3, false, /*skip=*/true), (V{7, 8}));
  EXPECT_THAT(rate("warmup", 0, false), testing::Each(testing::DoubleEq(0.1)));
  EXPECT_THAT(rate("warmup", 5, false), testing::Each(testing::DoubleEq(0.6)));
  EXPECT_THAT(rate("warmup", 3, true),
              testing::Each(testing::DoubleEq(0.1 + std::log(4) / std::log(10))));
  EXPECT_THAT(rate("warmup", 10, true), testing::Each(testing::DoubleEq(1.1)));
  EXPECT_THAT(rate("warmup", 9999, true), testing::Each(testing::DoubleEq(1.1)));
  EXPECT_THAT(rate("warmup_decay", 5, false), testing::Each(testing::DoubleEq(0.6)));
  EXPECT_THAT(rate("warmup_decay", 20, false), testing::Each(testing::DoubleEq(0.6)));
  EXPECT_THAT(rate("warmup_decay", 99, false), testing::Each(testing::DoubleEq(0.1)));
}

// ---- optimizers -------------------------------------------------------------------------------------

// Two groups and padding: elements 5 and 6 belong to no run.
const std::vector<DsRun> kRuns = {{0, 5, 0}, {7, 12, 1}};
const double kLr[] = {0.1, 0.02}, kDecay[] = {0.3, 0.0};
int groupOf(int i) { return i < 5 ? 0 : i < 7 ? -1 : 1; }

struct State {
  Tensor p, m, v;
};

Tensor f64s(std::vector<double> v) {
  auto n = static_cast<int64_t>(v.size());
  return {DType::F64, {n}, std::move(v)};
}

Outcome runAdam(OpKind op, const State &s, const Tensor &g, const Attrs &attrs, double clip,
                bool skip, double b1t, double b2t) {
  std::vector<std::vector<DsRun>> runs(10);
  for (int i = 0; i < 4; ++i)
    runs[i] = kRuns;
  Outcome o = run({op,
                   attrs,
                   {g, s.p, s.m, s.v, f64s({kLr[0], kLr[1]}), f64s({kDecay[0], kDecay[1]}),
                    scalar(clip), flagTensor(skip), scalar(b1t), scalar(b2t)},
                   runs,
                   false});
  EXPECT_EQ(o.error, "");
  return o;
}

State adamRun(const State &s, const Tensor &g, const Attrs &attrs, double clip, bool skip,
              double b1t, double b2t) {
  Outcome o = runAdam(OpKind::Adam, s, g, attrs, clip, skip, b1t, b2t);
  return {o.outs[0], o.outs[1], o.outs[2]};
}

// The textbook update in double, three steps.
TEST(RefUpdate, Adam) {
  for (DType t : {DType::F64, DType::F32})
    for (bool decoupled : {true, false})
      for (bool corrected : {true, false}) {
        State s = {uniform(t, {12}, 8), Tensor(t, {12}, std::vector<double>(12)),
                   Tensor(t, {12}, std::vector<double>(12))};
        State want = s;
        const double b1 = 0.8, b2 = 0.95, eps = 1e-3, clip = 0.7;
        Attrs attrs = {{"b1", b1},
                       {"b2", b2},
                       {"eps", eps},
                       {"decoupled", decoupled},
                       {"bias_correction", corrected}};
        for (int step = 1; step <= 3; ++step) {
          Tensor g = uniform(t, {12}, 100 + step);
          s = adamRun(s, g, attrs, clip, false, std::pow(b1, step - 1), std::pow(b2, step - 1));
          for (int i = 0; i < 12; ++i) {
            int group = groupOf(i);
            if (group < 0)
              continue;
            double lr = kLr[group], wd = kDecay[group], &p = want.p.v[i], &m = want.m.v[i],
                   &v = want.v.v[i];
            double gi = g.v[i] * clip + (decoupled ? 0 : wd * p);
            m = b1 * m + (1 - b1) * gi;
            v = b2 * v + (1 - b2) * gi * gi;
            double mHat = corrected ? m / (1 - std::pow(b1, step)) : m;
            double vHat = corrected ? v / (1 - std::pow(b2, step)) : v;
            p -= (decoupled ? lr * wd * p : 0) + lr * mHat / (std::sqrt(vHat) + eps);
          }
        }
        double tolerance = t == DType::F64 ? 1e-14 : 1e-6;
        expectNear(s.p, want.p, tolerance);
        expectNear(s.m, want.m, tolerance);
        expectNear(s.v, want.v, tolerance);
      }
}

TEST(RefUpdate, AdamSkips) {
  State s = {uniform(DType::F32, {12}, 9), uniform(DType::F32, {12}, 10),
             uniform(DType::F32, {12}, 11, 0, 1)};
  State after =
      adamRun(s, Tensor(DType::F32, {12}, std::vector<double>(12, kInf)), {}, 1, true, 1, 1);
  expectEqual(after.p, s.p);
  expectEqual(after.m, s.m);
  expectEqual(after.v, s.v);
}

// The bits of the two ops, also under skip and between runs.
TEST(RefUpdate, AdamRoundIsAdamAndCast) {
  for (const char *to : {"bf16", "f16"})
    for (bool skip : {false, true}) {
      State s = {uniform(DType::F32, {12}, 20), uniform(DType::F32, {12}, 21),
                 uniform(DType::F32, {12}, 22, 0, 1)};
      s.p.v[0] = 1e6; // infinite in f16
      Tensor g = uniform(DType::F32, {12}, 23);
      Attrs attrs = {{"to", std::string(to)}};
      Outcome o = runAdam(OpKind::AdamRound, s, g, attrs, 0.7, skip, 0.9, 0.999);
      State want = adamRun(s, g, {}, 0.7, skip, 0.9, 0.999);
      expectEqual(o.outs[0], run1(OpKind::Cast, {want.p}, attrs));
      expectEqual(o.outs[1], want.p);
      expectEqual(o.outs[2], want.m);
      expectEqual(o.outs[3], want.v);
    }
}

TEST(RefUpdate, SgdWithMomentum) {
  for (DType t : {DType::F64, DType::F32})
    for (double momentum : {0.0, 0.9})
      for (bool nesterov : {false, true})
        for (bool skip : {false, true}) {
          Tensor p = uniform(t, {12}, 12), m(t, {12}, std::vector<double>(12));
          Tensor wantP = p, wantM = m;
          std::vector<std::vector<DsRun>> runs(7);
          for (int i = 0; i < 3; ++i)
            runs[i] = kRuns;
          for (int step = 0; step < 3; ++step) {
            Tensor g = uniform(t, {12}, 200 + step);
            Outcome o = run({OpKind::Sgd,
                             {{"momentum", momentum}, {"nesterov", nesterov}},
                             {g, p, m, f64s({kLr[0], kLr[1]}), f64s({kDecay[0], kDecay[1]}),
                              scalar(0.5), flagTensor(skip)},
                             runs,
                             false});
            ASSERT_EQ(o.error, "");
            p = o.outs[0];
            m = o.outs[1];
            for (int i = 0; i < 12 && !skip; ++i) {
              int group = groupOf(i);
              if (group < 0)
                continue;
              double gi = 0.5 * g.v[i] + kDecay[group] * wantP.v[i];
              wantM.v[i] = momentum * wantM.v[i] + gi;
              wantP.v[i] -= kLr[group] * (nesterov ? gi + momentum * wantM.v[i] : wantM.v[i]);
            }
          }
          double tolerance = t == DType::F64 ? 1e-14 : 1e-6;
          expectNear(p, wantP, tolerance);
          expectNear(m, wantM, tolerance);
        }
}

TEST(RefUpdate, OptimizersRefuseAGroupWithoutRate) {
  Tensor x = uniform(DType::F32, {4}, 13);
  std::vector<std::vector<DsRun>> runs(7);
  runs[1] = {{0, 4, 1}};
  Outcome o = run({OpKind::Sgd,
                   {},
                   {x, x, x, f64s({1}), f64s({1}), scalar(1), flagTensor(false)},
                   runs,
                   false});
  EXPECT_THAT(o.error, testing::HasSubstr("group 1"));
}

} // namespace
} // namespace ds::optest
