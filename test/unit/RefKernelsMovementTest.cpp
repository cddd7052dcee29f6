// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

namespace ds::optest {
namespace {

using List = std::vector<int64_t>;
const DType kSizes[] = {DType::F64, DType::F32, DType::BF16, DType::Bool};

TEST(RefMovement, Transpose) {
  for (DType t : kSizes) {
    Tensor x = uniform(t, {2, 3, 5}, 1);
    expectEqual(run1(OpKind::Transpose, {x}, {{"perm", List{2, 0, 1}}}),
                tabulate(t, {5, 2, 3}, [&](const Dims &i) {
                  return x.at({i[1], i[2], i[0]});
                }));
  }
  expectEqual(run1(OpKind::Transpose, {scalar(3)}, {{"perm", List{}}}), scalar(3));
  Tensor empty(DType::F32, {0, 4}, {});
  EXPECT_EQ(run1(OpKind::Transpose, {empty}, {{"perm", List{1, 0}}}).dims, (Dims{4, 0}));
}

TEST(RefMovement, BroadcastAndCopy) {
  for (DType t : kSizes) {
    Tensor x = uniform(t, {3, 1}, 2);
    expectEqual(run1(OpKind::Broadcast, {x}, {{"dims", List{2, 3, 4}}}),
                tabulate(t, {2, 3, 4}, [&](const Dims &i) {
                  return x.at({i[1], 0});
                }));
    expectEqual(run1(OpKind::Copy, {x}), x);
  }
}

TEST(RefMovement, SliceWithSteps) {
  for (DType t : kSizes) {
    Tensor x = uniform(t, {7, 5}, 3);
    expectEqual(run1(OpKind::Slice, {x},
                     {{"starts", List{1, 2}}, {"limits", List{7, 5}}, {"strides", List{3, 2}}}),
                tabulate(t, {2, 2}, [&](const Dims &i) {
                  return x.at({1 + 3 * i[0], 2 + 2 * i[1]});
                }));
    EXPECT_EQ(run1(OpKind::Slice, {x},
                   {{"starts", List{7, 0}}, {"limits", List{7, 5}}, {"strides", List{1, 1}}})
                  .dims,
              (Dims{0, 5}));
  }
}

// Element o of a padded axis comes from operand element i with o = low + i * (interior + 1).
TEST(RefMovement, PadCropsAndSpreads) {
  const int64_t lows[] = {-3, -2, -1, 0, 2}, highs[] = {-3, -1, 0, 1}, interiors[] = {0, 1, 2};
  int tried = 0;
  for (int64_t low : lows)
    for (int64_t high : highs)
      for (int64_t interior : interiors) {
        int64_t extent = low + high + 4 + 3 * interior;
        if (extent < 0)
          continue;
        ++tried;
        Tensor x = uniform(DType::I32, {4, 2}, 4, 1, 100);
        Tensor got = run1(OpKind::Pad, {x},
                          {{"low", List{low, 1}},
                           {"high", List{high, 0}},
                           {"interior", List{interior, 0}},
                           {"value", -7.0}});
        expectEqual(got, tabulate(DType::I32, {extent, 3}, [&](const Dims &o) {
                      int64_t from = o[0] - low;
                      bool inside = from >= 0 && from % (interior + 1) == 0 &&
                                    from / (interior + 1) < 4 && o[1] >= 1;
                      return inside ? x.at({from / (interior + 1), o[1] - 1}) : -7.0;
                    }));
      }
  EXPECT_GT(tried, 40);
}

TEST(RefMovement, PadOfNothing) {
  expectEqual(run1(OpKind::Pad, {Tensor(DType::F32, {0}, {})},
                   {{"low", List{1}}, {"high", List{2}}, {"interior", List{3}}, {"value", 0.5}}),
              Tensor(DType::F32, {3}, {0.5, 0.5, 0.5}));
}

TEST(RefMovement, Reverse) {
  for (DType t : kSizes) {
    Tensor x = uniform(t, {3, 4, 2}, 5);
    expectEqual(run1(OpKind::Reverse, {x}, {{"axes", List{0, 2}}}),
                tabulate(t, {3, 4, 2}, [&](const Dims &i) {
                  return x.at({2 - i[0], i[1], 1 - i[2]});
                }));
  }
}

TEST(RefMovement, ConcatAlongAnyAxis) {
  Tensor a = uniform(DType::F32, {2, 3}, 6), b = uniform(DType::F32, {2, 0}, 7),
         c = uniform(DType::F32, {2, 2}, 8);
  for (int64_t axis : {int64_t(1), int64_t(-1)})
    expectEqual(run1(OpKind::Concat, {a, b, c}, {{"axis", axis}}),
                tabulate(DType::F32, {2, 5}, [&](const Dims &i) {
                  return i[1] < 3 ? a.at(i) : c.at({i[0], i[1] - 3});
                }));
  Tensor d = uniform(DType::F32, {1, 3}, 9);
  expectEqual(run1(OpKind::Concat, {a, d}, {{"axis", int64_t(0)}}),
              tabulate(DType::F32, {3, 3}, [&](const Dims &i) {
                return i[0] < 2 ? a.at(i) : d.at({0, i[1]});
              }));
}

TEST(RefMovement, GatherAndItsGradient) {
  for (DType index : {DType::I64, DType::I32})
    for (int64_t axis : {0, 1, 2, -1}) {
      Tensor x = uniform(DType::F64, {3, 4, 5}, 10);
      int64_t k = axis < 0 ? 2 : axis, extent = x.dims[k];
      Tensor at = uniform(index, {2, 3}, 11, -double(extent), double(extent));
      auto source = [&](const Dims &o) {
        Dims i = o;
        i.erase(i.begin() + k, i.begin() + k + 2);
        auto row = static_cast<int64_t>(at.at({o[k], o[k + 1]}));
        i.insert(i.begin() + k, row < 0 ? row + extent : row);
        return i;
      };
      Dims dims = x.dims;
      dims[k] = 2;
      dims.insert(dims.begin() + k + 1, 3);
      expectEqual(run1(OpKind::Gather, {x, at}, {{"axis", axis}}),
                  tabulate(DType::F64, dims, [&](const Dims &o) { return x.at(source(o)); }));

      Tensor dy = uniform(DType::F64, dims, 12);
      Tensor want = tabulate(DType::F64, x.dims, [&](const Dims &i) {
        double sum = 0;
        forEachIndex(dims, [&](const Dims &o) { sum += source(o) == i ? dy.at(o) : 0; });
        return sum;
      });
      expectNear(run1(OpKind::GatherGrad, {dy, at}, {{"axis", axis}, {"dims", x.dims}}), want,
                 1e-14);
    }
}

TEST(RefMovement, GatherRefusesIndices) {
  Tensor x = uniform(DType::F32, {3, 2}, 13);
  for (double bad : {3.0, -4.0}) {
    Tensor at(DType::I64, {2}, {0, bad});
    std::string want = "index " + std::to_string(int(bad)) + " is out of range for extent 3";
    EXPECT_THAT(errorOf(OpKind::Gather, {x, at}), testing::HasSubstr(want));
    EXPECT_THAT(
        errorOf(OpKind::GatherGrad, {uniform(DType::F32, {2, 2}, 14), at}, {{"dims", List{3, 2}}}),
        testing::HasSubstr(want));
  }
}

TEST(RefMovement, Trilu) {
  for (bool upper : {false, true})
    for (int64_t k : {-5, -1, 0, 1, 7}) {
      Tensor x = uniform(DType::F32, {2, 3, 5}, 15, 1, 2);
      expectEqual(run1(OpKind::Trilu, {x}, {{"upper", upper}, {"k", k}}),
                  tabulate(DType::F32, x.dims, [&](const Dims &i) {
                    bool kept = upper ? i[2] >= i[1] + k : i[2] <= i[1] + k;
                    return kept ? x.at(i) : 0;
                  }));
    }
}

TEST(RefMovement, IotaAndFill) {
  expectEqual(run1(OpKind::Iota, {},
                   {{"dims", List{2, 3}},
                    {"axis", int64_t(1)},
                    {"start", int64_t(5)},
                    {"step", int64_t(-2)}}),
              Tensor(DType::I64, {2, 3}, {5, 3, 1, 5, 3, 1}));
  expectEqual(run1(OpKind::Iota, {}, {{"dims", List{4}}, {"dtype", std::string("f32")}}),
              Tensor(DType::F32, {4}, {0, 1, 2, 3}));
  expectEqual(
      run1(OpKind::Fill, {}, {{"dims", List{2}}, {"dtype", std::string("bf16")}, {"value", 0.5}}),
      Tensor(DType::BF16, {2}, {0.5, 0.5}));
  expectEqual(
      run1(OpKind::Fill, {}, {{"dims", List{}}, {"dtype", std::string("i64")}, {"value", -3.0}}),
      Tensor(DType::I64, {}, {-3}));
  expectEqual(
      run1(OpKind::Fill, {}, {{"dims", List{1}}, {"dtype", std::string("bool")}, {"value", 1.0}}),
      Tensor(DType::Bool, {1}, {1}));
}

} // namespace
} // namespace ds::optest
