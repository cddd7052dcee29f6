// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

#include <cmath>

namespace ds::optest {
namespace {

double toleranceOf(DType t) { return t == DType::F64 ? 1e-13 : t == DType::F32 ? 1e-6 : 1e-2; }

TEST(RefLoss, CrossEntropySumsRowsWithLabels) {
  for (DType t : {DType::F64, DType::F32, DType::BF16})
    for (DType index : {DType::I64, DType::I32}) {
      Tensor logits = uniform(t, {3, 4, 7}, 1, -5, 5), labels = uniform(index, {3, 4}, 2, 0, 7);
      labels.v[5] = labels.v[7] = -100;
      const double inv = 1.0 / 10;
      Outcome o = run({OpKind::CrossEntropy, {}, {logits, labels, scalar(inv)}});
      ASSERT_EQ(o.error, "");
      EXPECT_TRUE(o.sameStrided);
      auto lse = [&](const Dims &row) {
        double sum = 0;
        for (int64_t k = 0; k < 7; ++k)
          sum += std::exp(logits.at({row[0], row[1], k}));
        return std::log(sum);
      };
      double loss = 0;
      forEachIndex(labels.dims, [&](const Dims &row) {
        auto label = static_cast<int64_t>(labels.at(row));
        if (label != -100)
          loss += inv * (lse(row) - logits.at({row[0], row[1], label}));
      });
      DType accum = accumType(t);
      expectNear(o.outs[0], Tensor(accum, {}, {loss}), toleranceOf(accum));
      expectNear(o.outs[1], tabulate(accum, labels.dims, lse), toleranceOf(accum));

      Tensor grad = run1(OpKind::CrossEntropyGrad, {logits, labels, o.outs[1], scalar(inv)});
      expectNear(grad,
                 tabulate(t, logits.dims,
                          [&](const Dims &i) {
                            double label = labels.at({i[0], i[1]});
                            double p = std::exp(logits.at(i) - lse({i[0], i[1]}));
                            return label == -100 ? 0 : inv * (p - (label == double(i[2])));
                          }),
                 toleranceOf(t));
    }
}

TEST(RefLoss, CrossEntropyRefusesLabels) {
  Tensor logits = uniform(DType::F32, {2, 3}, 3), lse = uniform(DType::F32, {2}, 4);
  for (double bad : {3.0, -1.0, 1e9}) {
    Tensor labels(DType::I64, {2}, {0, bad});
    std::string want = "label " + std::to_string(int64_t(bad)) + " of row 1 is not in [0, 3)";
    EXPECT_THAT(errorOf(OpKind::CrossEntropy, {logits, labels, scalar(1)}),
                testing::HasSubstr(want));
    EXPECT_THAT(errorOf(OpKind::CrossEntropyGrad, {logits, labels, lse, scalar(1)}),
                testing::HasSubstr(want));
  }
  // The same label is fine once it is the ignored one.
  Outcome o = run({OpKind::CrossEntropy,
                   {{"ignore_index", int64_t(3)}},
                   {logits, Tensor(DType::I64, {2}, {3, 3}), scalar(1)}});
  EXPECT_EQ(o.error, "");
  EXPECT_EQ(o.outs[0].v[0], 0);
}

TEST(RefLoss, CrossEntropyOfHugeLogits) {
  Tensor logits(DType::F32, {1, 2}, {1e4, -1e4});
  Outcome o = run({OpKind::CrossEntropy, {}, {logits, Tensor(DType::I64, {1}, {1}), scalar(1)}});
  EXPECT_EQ(o.outs[0].v[0], 2e4);
}

TEST(RefLoss, MseAndItsGradient) {
  for (DType t : {DType::F64, DType::F32, DType::F16})
    for (const Dims &dims : {Dims{3, 5}, Dims{}, Dims{0}}) {
      Tensor a = uniform(t, dims, 5), b = uniform(t, dims, 6);
      double sum = 0;
      forEachIndex(dims, [&](const Dims &i) { sum += std::pow(a.at(i) - b.at(i), 2); });
      DType accum = accumType(t);
      expectNear(run1(OpKind::Mse, {a, b, scalar(0.25)}), Tensor(accum, {}, {sum / 4}),
                 toleranceOf(accum));
      expectNear(run1(OpKind::MseGrad, {a, b, scalar(0.25)}),
                 tabulate(t, dims, [&](const Dims &i) { return 0.5 * (a.at(i) - b.at(i)); }),
                 toleranceOf(t));
    }
}

} // namespace
} // namespace ds::optest
