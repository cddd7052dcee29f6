// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ds::optest {
namespace {

using List = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double toleranceOf(DType t) { return t == DType::F64 ? 1e-13 : t == DType::F32 ? 1e-6 : 1e-2; }

TEST(RefReduce, AnyAxes) {
  const List axesList[] = {{}, {0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (DType t : {DType::F64, DType::F32, DType::F16, DType::I32, DType::U8})
    for (const List &axes : axesList)
      for (bool keep : {false, true}) {
        Tensor x = uniform(t, {3, 4, 5}, 1, 0, 3);
        auto reduced = [&](size_t i) {
          return std::find(axes.begin(), axes.end(), int64_t(i)) != axes.end();
        };
        auto expected = [&](double start, auto f) {
          Dims dims;
          for (size_t i = 0; i < 3; ++i)
            if (!reduced(i) || keep)
              dims.push_back(reduced(i) ? 1 : x.dims[i]);
          return tabulate(t, dims, [&](const Dims &o) {
            double sum = start;
            forEachIndex(x.dims, [&](const Dims &i) {
              Dims to;
              for (size_t k = 0; k < 3; ++k)
                if (!reduced(k) || keep)
                  to.push_back(reduced(k) ? 0 : i[k]);
              if (to == o)
                sum = f(sum, x.at(i));
            });
            return sum;
          });
        };
        Attrs attrs = {{"axes", axes}, {"keepdims", keep}};
        expectNear(run1(OpKind::ReduceSum, {x}, attrs),
                   expected(0, [](double a, double b) { return a + b; }), toleranceOf(t));
        expectEqual(run1(OpKind::ReduceMax, {x}, attrs),
                    expected(-1, [](double a, double b) { return std::fmax(a, b); }));
        expectEqual(run1(OpKind::ReduceMin, {x}, attrs),
                    expected(99, [](double a, double b) { return std::fmin(a, b); }));
      }
}

TEST(RefReduce, EmptyNanAndLongSums) {
  Attrs all = {{"axes", List{0}}};
  Tensor none(DType::F32, {0}, {});
  expectEqual(run1(OpKind::ReduceSum, {none}, all), Tensor(DType::F32, {}, {0}));
  expectEqual(run1(OpKind::ReduceMax, {none}, all), Tensor(DType::F32, {}, {-kInf}));
  expectEqual(run1(OpKind::ReduceMin, {none}, all), Tensor(DType::F32, {}, {kInf}));
  Tensor nan(DType::F64, {3}, {1, kNan, 2});
  expectEqual(run1(OpKind::ReduceMax, {nan}, all), Tensor(DType::F64, {}, {kNan}));
  expectEqual(run1(OpKind::ReduceMin, {nan}, all), Tensor(DType::F64, {}, {kNan}));
  // A float running sum would lose every second term here.
  Tensor ones = tabulate(DType::F32, {1001}, [](const Dims &i) { return i[0] ? 1.0 : 0x1p24; });
  expectEqual(run1(OpKind::ReduceSum, {ones}, all), Tensor(DType::F32, {}, {0x1p24 + 1000}));
}

TEST(RefReduce, SoftmaxAndItsGradient) {
  for (DType t : {DType::F64, DType::F32, DType::BF16})
    for (int64_t axis : {0, 1, -1}) {
      Tensor x = uniform(t, {3, 4, 5}, 2, -4, 4), dy = uniform(t, {3, 4, 5}, 3);
      size_t k = axis < 0 ? 2 : axis;
      auto lineSum = [&](const Dims &i, auto f) {
        double sum = 0;
        for (int64_t n = 0; n < x.dims[k]; ++n) {
          Dims j = i;
          j[k] = n;
          sum += f(j);
        }
        return sum;
      };
      auto exact = [&](const Dims &i) {
        return std::exp(x.at(i)) / lineSum(i, [&](const Dims &j) { return std::exp(x.at(j)); });
      };
      Tensor y = run1(OpKind::Softmax, {x}, {{"axis", axis}});
      expectNear(y, tabulate(t, x.dims, exact), toleranceOf(t));
      expectNear(run1(OpKind::LogSoftmax, {x}, {{"axis", axis}}),
                 tabulate(t, x.dims, [&](const Dims &i) { return std::log(exact(i)); }),
                 toleranceOf(t));
      // The Jacobian, written out.
      expectNear(run1(OpKind::SoftmaxGrad, {dy, y}, {{"axis", axis}}),
                 tabulate(t, x.dims,
                          [&](const Dims &i) {
                            return lineSum(i, [&](const Dims &j) {
                              return dy.at(j) * y.at(j) * ((i == j) - y.at(i));
                            });
                          }),
                 toleranceOf(t));
    }
}

TEST(RefReduce, SoftmaxDoesNotOverflow) {
  expectEqual(run1(OpKind::Softmax, {Tensor(DType::F32, {3}, {1e30, 1e30, -kInf})}),
              Tensor(DType::F32, {3}, {0.5, 0.5, 0}));
  expectEqual(run1(OpKind::LogSoftmax, {Tensor(DType::F64, {2}, {-1000, -1000})}),
              Tensor(DType::F64, {2}, {-std::log(2.0), -std::log(2.0)}));
}

TEST(RefReduce, MatmulTransposesAndBroadcasts) {
  struct Case {
    Dims a, b;
  };
  const Case cases[] = {{{3, 5}, {5, 7}},    {{2, 3, 5}, {5, 4}}, {{4, 1, 2, 3}, {5, 3, 2}},
                        {{1, 70}, {70, 67}}, {{3, 0}, {0, 2}},    {{0, 3}, {3, 2}}};
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::I32, DType::U8})
    for (const Case &c : cases)
      for (int trans = 0; trans < 4; ++trans) {
        bool ta = trans & 1, tb = trans & 2;
        Dims da = c.a, db = c.b;
        if (ta)
          std::swap(da[da.size() - 1], da[da.size() - 2]);
        if (tb)
          std::swap(db[db.size() - 1], db[db.size() - 2]);
        Tensor a = uniform(t, da, 4, 0, 3), b = uniform(t, db, 5, 0, 3);
        Tensor got = run1(OpKind::Matmul, {a, b}, {{"trans_a", ta}, {"trans_b", tb}});
        int64_t inner = c.a.back();
        auto element = [&](const Tensor &m, const Dims &o, int64_t row, int64_t column,
                           bool trans) {
          Dims batch(o.begin(), o.end() - 2);
          Dims mBatch(m.dims.begin(), m.dims.end() - 2);
          Dims i = broadcastIndex(batch, mBatch);
          i.push_back(trans ? column : row);
          i.push_back(trans ? row : column);
          return m.at(i);
        };
        Tensor want = tabulate(t, got.dims, [&](const Dims &o) {
          double sum = 0;
          for (int64_t k = 0; k < inner; ++k)
            sum += element(a, o, o[o.size() - 2], k, ta) * element(b, o, k, o.back(), tb);
          return t == DType::U8 ? std::fmod(sum, 256) : sum;
        });
        expectNear(got, want, isFloat(t) ? toleranceOf(t) : 0);
        EXPECT_EQ(got.dims.back(), c.b.back());
      }
}

TEST(RefReduce, LayerNorm) {
  for (DType t : {DType::F64, DType::F32, DType::BF16})
    for (int64_t axis : {1, 2, -1, -3})
      for (bool hasBias : {false, true}) {
        Tensor x = uniform(t, {3, 4, 5}, 6);
        int64_t k = axis < 0 ? axis + 3 : axis;
        Dims rows(x.dims.begin(), x.dims.begin() + k), columns(x.dims.begin() + k, x.dims.end());
        Tensor scale = uniform(t, columns, 7), bias = uniform(t, columns, 8);
        std::vector<Tensor> ins = {x, scale};
        if (hasBias)
          ins.push_back(bias);
        Outcome o = run({OpKind::LayerNorm, {{"axis", axis}, {"eps", 0.01}}, ins});
        ASSERT_EQ(o.error, "");
        EXPECT_TRUE(o.sameStrided);
        double n = 0;
        forEachIndex(columns, [&](const Dims &) { ++n; });
        auto moment = [&](const Dims &row, double center, int power) {
          double sum = 0;
          forEachIndex(columns, [&](const Dims &c) {
            Dims i = row;
            i.insert(i.end(), c.begin(), c.end());
            sum += std::pow(x.at(i) - center, power);
          });
          return sum / n;
        };
        DType accum = accumType(t);
        Tensor mean = tabulate(accum, rows, [&](const Dims &row) { return moment(row, 0, 1); });
        Tensor rstd = tabulate(accum, rows, [&](const Dims &row) {
          return std::pow(moment(row, moment(row, 0, 1), 2) + 0.01, -0.5);
        });
        Tensor y = tabulate(t, x.dims, [&](const Dims &i) {
          Dims row(i.begin(), i.begin() + k), c(i.begin() + k, i.end());
          return (x.at(i) - mean.at(row)) * rstd.at(row) * scale.at(c) + (hasBias ? bias.at(c) : 0);
        });
        expectNear(o.outs[0], y, toleranceOf(t));
        expectNear(o.outs[1], mean, toleranceOf(accum));
        expectNear(o.outs[2], rstd, toleranceOf(accum));
      }
}

// Compared with differences of the forward kernel, in f64.
TEST(RefReduce, LayerNormGradIsTheSlope) {
  for (int64_t axis : {1, -1}) {
    Dims dims = {3, 2, 4};
    Dims columns(dims.begin() + (axis < 0 ? axis + 3 : axis), dims.end());
    Tensor x = uniform(DType::F64, dims, 9), dy = uniform(DType::F64, dims, 10);
    Tensor scale = uniform(DType::F64, columns, 11), bias = uniform(DType::F64, columns, 12);
    auto loss = [&](const Tensor &x, const Tensor &scale, const Tensor &bias) {
      Outcome o = run({OpKind::LayerNorm, {{"axis", axis}}, {x, scale, bias}});
      double sum = 0;
      for (int64_t i = 0; i < dy.elems(); ++i)
        sum += o.outs[0].v[i] * dy.v[i];
      return sum;
    };
    auto slope = [&](Tensor &t) {
      Tensor g = t;
      for (int64_t i = 0; i < t.elems(); ++i) {
        double old = t.v[i], h = 1e-5;
        t.v[i] = old + h;
        double up = loss(x, scale, bias);
        t.v[i] = old - h;
        g.v[i] = (up - loss(x, scale, bias)) / (2 * h);
        t.v[i] = old;
      }
      return g;
    };
    Outcome forward = run({OpKind::LayerNorm, {{"axis", axis}}, {x, scale, bias}});
    Outcome back = run({OpKind::LayerNormGrad,
                        {{"axis", axis}},
                        {dy, x, scale, forward.outs[1], forward.outs[2]},
                        {}});
    ASSERT_EQ(back.error, "");
    EXPECT_TRUE(back.sameStrided);
    expectNear(back.outs[0], slope(x), 1e-8);
    expectNear(back.outs[1], slope(scale), 1e-8);
    expectNear(back.outs[2], slope(bias), 1e-8);
  }
}

} // namespace
} // namespace ds::optest
