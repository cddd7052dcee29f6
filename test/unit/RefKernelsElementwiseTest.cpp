// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ds::optest {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct UnaryCase {
  OpKind op;
  double (*f)(double);
  double low = -3, high = 3;
  bool ints = false;
};

TEST(RefElementwise, UnaryMatchClosedForms) {
  const UnaryCase cases[] = {
      {OpKind::Neg, [](double x) { return -x; }, -3, 3, true},
      {OpKind::Abs, [](double x) { return x < 0 ? -x : x; }, -3, 3, true},
      {OpKind::Sign, [](double x) { return double((x > 0) - (x < 0)); }, -3, 3, true},
      {OpKind::Relu, [](double x) { return x > 0 ? x : 0; }, -3, 3, true},
      {OpKind::Exp, [](double x) { return std::exp(x); }},
      {OpKind::Log, [](double x) { return std::log(x); }, 0.01, 5},
      {OpKind::Sqrt, [](double x) { return std::sqrt(x); }, 0, 5},
      {OpKind::Reciprocal, [](double x) { return 1 / x; }, 0.1, 5},
      {OpKind::Tanh, [](double x) { return (std::exp(2 * x) - 1) / (std::exp(2 * x) + 1); }},
      {OpKind::Sigmoid, [](double x) { return 0.5 * (1 + std::tanh(x / 2)); }},
      {OpKind::Erf, [](double x) { return 1 - std::erfc(x); }},
      {OpKind::Sin, [](double x) { return std::sin(x); }},
      {OpKind::Cos, [](double x) { return std::sin(x + std::acos(0.0)); }},
      {OpKind::Floor, [](double x) { return double(int(x) - (x < int(x))); }},
      {OpKind::Ceil, [](double x) { return double(int(x) + (x > int(x))); }},
      {OpKind::Round, [](double x) { return x - std::remainder(x, 1); }},
      {OpKind::Gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
  };
  for (const UnaryCase &c : cases)
    for (DType t : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I64, DType::I8}) {
      if (!isFloat(t) && !c.ints)
        continue;
      SCOPED_TRACE(std::string(info(c.op).text) + " " + std::string(text(t)));
      Tensor x = uniform(t, {3, 5, 7}, 1, c.low, c.high);
      Tensor want = tabulate(t, x.dims, [&](const Dims &i) { return c.f(x.at(i)); });
      double tolerance = t == DType::F64 ? 1e-14 : t == DType::F32 ? 1e-7 : 0;
      expectNear(run1(c.op, {x}), want, tolerance);
    }
}

TEST(RefElementwise, SpecialValues) {
  auto f64 = [](std::vector<double> v) {
    int64_t n = static_cast<int64_t>(v.size());
    return Tensor(DType::F64, {n}, std::move(v));
  };
  Tensor x = f64({kNan, kInf, -kInf, 0, -0.5, 0.5, 1.5, 2.5});
  expectEqual(run1(OpKind::Relu, {x}), f64({kNan, kInf, 0, 0, 0, 0.5, 1.5, 2.5}));
  expectEqual(run1(OpKind::Sign, {x}), f64({kNan, 1, -1, 0, -1, 1, 1, 1}));
  expectEqual(run1(OpKind::Round, {x}), f64({kNan, kInf, -kInf, 0, -0.0, 0, 2, 2}));
  expectEqual(run1(OpKind::Sigmoid, {f64({kInf, -kInf, 800, -800})}), f64({1, 0, 1, 0}));
  expectEqual(run1(OpKind::Max, {x, f64({1, 1, 1, kNan, 1, 1, 1, 1})}),
              f64({kNan, kInf, 1, kNan, 1, 1, 1.5, 2.5}));
  expectEqual(run1(OpKind::Min, {x, f64({1, 1, 1, kNan, 1, 1, 1, 1})}),
              f64({kNan, 1, -kInf, kNan, -0.5, 0.5, 1, 1}));
  auto flags = [](std::vector<double> v) { return Tensor(DType::Bool, {8}, std::move(v)); };
  expectEqual(run1(OpKind::IsNan, {x}), flags({1, 0, 0, 0, 0, 0, 0, 0}));
  expectEqual(run1(OpKind::IsInf, {x}), flags({0, 1, 1, 0, 0, 0, 0, 0}));
  expectEqual(run1(OpKind::IsInf, {x}, {{"negative", false}}), flags({0, 1, 0, 0, 0, 0, 0, 0}));
  expectEqual(run1(OpKind::IsInf, {x}, {{"positive", false}}), flags({0, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(RefElementwise, GradientsAreSlopes) {
  Tensor x = uniform(DType::F64, {4, 9}, 2), dy = uniform(DType::F64, {4, 9}, 3);
  const double h = 1e-5;
  auto shifted = [&](double d) {
    return tabulate(DType::F64, x.dims, [&](const Dims &i) { return x.at(i) + d; });
  };
  auto slope = [&](OpKind op, Attrs attrs) {
    Tensor up = run1(op, {shifted(h)}, attrs), down = run1(op, {shifted(-h)}, attrs);
    return tabulate(DType::F64, x.dims,
                    [&](const Dims &i) { return dy.at(i) * (up.at(i) - down.at(i)) / (2 * h); });
  };
  for (bool form : {false, true})
    expectNear(run1(OpKind::GeluGrad, {dy, x}, {{"tanh", form}}),
               slope(OpKind::Gelu, {{"tanh", form}}), 1e-9);
  expectNear(run1(OpKind::TanhGrad, {dy, run1(OpKind::Tanh, {x})}), slope(OpKind::Tanh, {}), 1e-9);
  expectNear(run1(OpKind::ReluGrad, {dy, x}), slope(OpKind::Relu, {}), 1e-9);
}

TEST(RefElementwise, GeluTanhFormIsNearTheExactOne) {
  Tensor x = uniform(DType::F64, {50}, 4, -4, 4);
  expectNear(run1(OpKind::Gelu, {x}, {{"tanh", true}}), run1(OpKind::Gelu, {x}), 1e-3);
  EXPECT_NEAR(run1(OpKind::Gelu, {scalar(1.0)}, {{"tanh", true}}).v[0], 0.841191990608, 1e-11);
}

struct BinaryCase {
  OpKind op;
  double (*f)(double, double);
};

double pythonMod(double a, double b) { return a - b * std::floor(a / b); }

TEST(RefElementwise, BinaryBroadcasts) {
  const BinaryCase cases[] = {
      {OpKind::Add, [](double a, double b) { return a + b; }},
      {OpKind::Sub, [](double a, double b) { return a - b; }},
      {OpKind::Mul, [](double a, double b) { return a * b; }},
      {OpKind::Div, [](double a, double b) { return a / b; }},
      {OpKind::Max, [](double a, double b) { return a > b ? a : b; }},
      {OpKind::Min, [](double a, double b) { return a > b ? b : a; }},
      {OpKind::Mod, pythonMod},
  };
  const std::pair<Dims, Dims> shapes[] = {{{3, 5}, {3, 5}},    {{3, 5}, {}},        {{}, {2, 3}},
                                          {{4, 1, 3}, {5, 1}}, {{1, 3}, {7, 2, 1}}, {{0, 3}, {1}}};
  for (const BinaryCase &c : cases)
    for (const auto &[da, db] : shapes)
      for (DType t : {DType::F64, DType::F32, DType::BF16, DType::I32, DType::I8}) {
        SCOPED_TRACE(std::string(info(c.op).text) + " " + std::string(text(t)) + dimsText(da));
        Tensor a = uniform(t, da, 5, -9, 9), b = uniform(t, db, 6, 1, 9);
        Tensor got = run1(c.op, {a, b});
        Tensor want = tabulate(t, got.dims, [&](const Dims &i) {
          double v = c.f(a.at(broadcastIndex(i, da)), b.at(broadcastIndex(i, db)));
          return isFloat(t) ? v : std::trunc(v);
        });
        double tolerance = t == DType::F64    ? 1e-14
                           : t == DType::F32  ? 2e-6
                           : t == DType::BF16 ? 0.1
                                              : 0;
        expectNear(got, want, c.op == OpKind::Mod ? tolerance : tolerance / 10);
      }
}

TEST(RefElementwise, IntegersWrapAndTruncate) {
  auto i32 = [](std::vector<double> v) { return Tensor(DType::I32, {4}, std::move(v)); };
  Tensor low = i32({-2147483648.0, 7, -7, 7}), by = i32({-1, 2, 2, -2});
  expectEqual(run1(OpKind::Div, {low, by}), i32({-2147483648.0, 3, -3, -3}));
  expectEqual(run1(OpKind::Mod, {low, by}), i32({0, 1, 1, -1}));
  expectEqual(run1(OpKind::Mod, {low, by}, {{"fmod", true}}), i32({0, 1, -1, 1}));
  expectEqual(run1(OpKind::Neg, {low}), i32({-2147483648.0, -7, 7, -7}));
  expectEqual(run1(OpKind::Add, {low, i32({-1, 0, 0, 0})}), i32({2147483647, 7, -7, 7}));
  Tensor zero = i32({1, 0, 1, 1});
  EXPECT_THAT(errorOf(OpKind::Div, {low, zero}), testing::HasSubstr("division by zero"));
  EXPECT_THAT(errorOf(OpKind::Mod, {low, zero}), testing::HasSubstr("remainder by zero"));
}

TEST(RefElementwise, Pow) {
  Tensor base = uniform(DType::F64, {3, 4}, 7, 0.1, 3), e = uniform(DType::F64, {4}, 8);
  expectNear(run1(OpKind::Pow, {base, e}),
             tabulate(DType::F64, {3, 4},
                      [&](const Dims &i) { return std::exp(e.at({i[1]}) * std::log(base.at(i))); }),
             1e-13);
  Tensor two(DType::I64, {}, {2});
  expectEqual(run1(OpKind::Pow, {Tensor(DType::F32, {3}, {-3, 0, 1.5}), two}),
              Tensor(DType::F32, {3}, {9, 0, 2.25}));
  Tensor ints(DType::I64, {4}, {-2, -1, 1, 3});
  expectEqual(run1(OpKind::Pow, {ints, Tensor(DType::I64, {}, {3})}),
              Tensor(DType::I64, {4}, {-8, -1, 1, 27}));
  expectEqual(run1(OpKind::Pow, {ints, Tensor(DType::I32, {}, {-3})}),
              Tensor(DType::I64, {4}, {0, -1, 1, 0}));
  expectEqual(run1(OpKind::Pow, {ints, Tensor(DType::F32, {}, {0.5})}),
              Tensor(DType::I64, {4}, {0, 0, 1, 1}));
}

TEST(RefElementwise, ComparisonsAndLogic) {
  Tensor a(DType::F32, {5}, {1, 2, 3, kNan, kInf}), b(DType::F32, {5}, {2, 2, 2, kNan, kInf});
  auto flags = [](std::vector<double> v) { return Tensor(DType::Bool, {5}, std::move(v)); };
  expectEqual(run1(OpKind::Eq, {a, b}), flags({0, 1, 0, 0, 1}));
  expectEqual(run1(OpKind::Lt, {a, b}), flags({1, 0, 0, 0, 0}));
  expectEqual(run1(OpKind::Le, {a, b}), flags({1, 1, 0, 0, 1}));
  expectEqual(run1(OpKind::Gt, {a, b}), flags({0, 0, 1, 0, 0}));
  expectEqual(run1(OpKind::Ge, {a, b}), flags({0, 1, 1, 0, 1}));
  Tensor u(DType::U8, {5}, {200, 1, 0, 255, 128}), w(DType::U8, {1}, {128});
  expectEqual(run1(OpKind::Gt, {u, w}), flags({1, 0, 0, 1, 0}));
  Tensor p = flags({0, 0, 1, 1, 1}), q = flags({0, 1, 0, 1, 1});
  expectEqual(run1(OpKind::And, {p, q}), flags({0, 0, 0, 1, 1}));
  expectEqual(run1(OpKind::Or, {p, q}), flags({0, 1, 1, 1, 1}));
  expectEqual(run1(OpKind::Xor, {p, q}), flags({0, 1, 1, 0, 0}));
  expectEqual(run1(OpKind::Not, {p}), flags({1, 1, 0, 0, 0}));
  expectEqual(run1(OpKind::Eq, {p, q}), flags({1, 0, 0, 1, 1}));
}

TEST(RefElementwise, WhereBroadcastsAllThree) {
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool}) {
    Tensor c = uniform(DType::Bool, {3, 1}, 9, 0, 2), a = uniform(t, {1, 4}, 10, 0, 2);
    Tensor b = uniform(t, {2, 1, 1}, 11, 0, 2);
    Tensor got = run1(OpKind::Where, {c, a, b});
    expectEqual(got, tabulate(t, {2, 3, 4}, [&](const Dims &i) {
                  return c.at(broadcastIndex(i, c.dims)) ? a.at(broadcastIndex(i, a.dims))
                                                         : b.at(broadcastIndex(i, b.dims));
                }));
  }
}

Tensor cast(const Tensor &x, DType to) {
  return run1(OpKind::Cast, {x}, {{"to", std::string(text(to))}});
}

TEST(RefElementwise, CastRoundsToNearestEven) {
  // 1 + 2^-8 is halfway between two bf16 values, 1 + 3 * 2^-8 as well; even fractions win.
  Tensor x(DType::F64, {5}, {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-40, -0x1.8p-133, 1e39});
  expectEqual(cast(x, DType::BF16),
              Tensor(DType::BF16, {5}, {1, 1 + 0x1p-6, 1 + 0x1p-7, -0x1p-132, kInf}));
  Tensor y(DType::F64, {6}, {1 + 0x1p-11, 65504, 65519, 65520, 0x1p-25, 0x1.8p-24});
  expectEqual(cast(y, DType::F16), Tensor(DType::F16, {6}, {1, 65504, 65504, kInf, 0, 0x1p-23}));
  // Rounding once: through f32 this would be a tie and go to the even side.
  Tensor z(DType::F64, {1}, {1 + 0x1p-11 + 0x1p-40});
  expectEqual(cast(z, DType::F16), Tensor(DType::F16, {1}, {1 + 0x1p-10}));
  Tensor special(DType::F32, {3}, {kNan, -kInf, -0.0});
  expectEqual(cast(special, DType::F16), Tensor(DType::F16, {3}, {kNan, -kInf, -0.0}));
}

TEST(RefElementwise, CastHalfValuesSurvive) {
  for (DType half : {DType::BF16, DType::F16}) {
    Tensor x = uniform(half, {1000}, 12, -300, 300);
    expectEqual(cast(cast(x, DType::F32), half), x);
  }
}

TEST(RefElementwise, CastToIntegers) {
  Tensor x(DType::F32, {6}, {1.9f, -1.9f, kNan, 1e10f, -1e10f, 0.5f});
  expectEqual(cast(x, DType::I32),
              Tensor(DType::I32, {6}, {1, -1, 0, 2147483647, -2147483648.0, 0}));
  expectEqual(cast(x, DType::U8), Tensor(DType::U8, {6}, {1, 0, 0, 255, 0, 0}));
  expectEqual(cast(x, DType::Bool), Tensor(DType::Bool, {6}, {1, 1, 1, 1, 1, 1}));
  expectEqual(cast(Tensor(DType::I64, {3}, {300, -1, 0}), DType::U8),
              Tensor(DType::U8, {3}, {44, 255, 0}));
  expectEqual(cast(Tensor(DType::Bool, {2}, {1, 0}), DType::F32), Tensor(DType::F32, {2}, {1, 0}));
}

TEST(RefElementwise, EveryPairOfDTypesCasts) {
#define DTYPE(kind, text, bytes, ctype, onnx, safe) DType::kind,
  const DType all[] = {
#include "ir/DTypes.def"
  };
#undef DTYPE
  for (DType from : all)
    for (DType to : all) {
      Tensor x = uniform(from, {7}, 13, 0, 2);
      expectEqual(cast(x, to), tabulate(to, {7}, [&](const Dims &i) {
                    double v = x.at(i);
                    return to == DType::Bool ? v != 0 : isFloat(to) ? v : std::trunc(v);
                  }));
    }
}

} // namespace
} // namespace ds::optest
