// SPDX-License-Identifier: Apache-2.0
#include "ir/Shapes.h"

#include "ir/Bins.h"

#include <gmock/gmock.h>

namespace ds {
namespace {

using List = std::vector<int64_t>;
using testing::HasSubstr;

Type f32(List dims) { return {DType::F32, std::move(dims)}; }
Type f64(List dims) { return {DType::F64, std::move(dims)}; }
Type i64(List dims) { return {DType::I64, std::move(dims)}; }
Type boolean(List dims) { return {DType::Bool, std::move(dims)}; }

/// "f32[2,3] f32[2]", or the error.
std::string infer(OpKind op, std::vector<Type> in, Attrs attrs = {}) {
  if (Status s = completeAttrs(attrs, info(op).attrs, info(op).text); !s.ok())
    return s.entries().front().text;
  std::vector<Type> out;
  std::vector<std::pair<std::string, int64_t>> mesh = {{"dp", 4}, {"tp", 2}};
  if (Status s = inferShape({op, in, attrs, mesh, out}); !s.ok())
    return s.entries().front().text;
  EXPECT_EQ(out.size(), static_cast<size_t>(info(op).outs));
  std::string text;
  for (const Type &t : out)
    text += (text.empty() ? "" : " ") + t.str();
  return text;
}

TEST(Shapes, Elementwise) {
  EXPECT_EQ(infer(OpKind::Neg, {i64({3})}), "i64[3]");
  EXPECT_THAT(infer(OpKind::Neg, {boolean({3})}), HasSubstr("[same_1]"));
  EXPECT_EQ(infer(OpKind::Exp, {f32({2, 0})}), "f32[2,0]");
  EXPECT_EQ(infer(OpKind::Exp, {i64({2})}),
            "exp: operand 0 is i64[2], expected a floating-point type [same_float_1]");
  EXPECT_EQ(infer(OpKind::Add, {f32({4, 1, 3}), f32({5, 1})}), "f32[4,5,3]");
  EXPECT_EQ(
      infer(OpKind::Add, {f32({2, 3}), f32({2, 4})}),
      "add: shapes do not broadcast: [2,3] and [2,4] differ at axis -1, 3 and 4 [broadcast_3]");
  EXPECT_EQ(infer(OpKind::Mul, {f32({2}), f64({2})}),
            "mul: element types differ: operand 0 is f32[2], operand 1 is f64[2] [broadcast_2]");
  EXPECT_THAT(infer(OpKind::Add, {boolean({}), boolean({})}), HasSubstr("[broadcast_1]"));
  EXPECT_EQ(infer(OpKind::Pow, {f32({2, 1}), i64({3})}), "f32[2,3]");
  EXPECT_EQ(infer(OpKind::Eq, {boolean({2}), boolean({})}), "bool[2]");
  EXPECT_THAT(infer(OpKind::Lt, {boolean({2}), boolean({})}), HasSubstr("[compare_1]"));
  EXPECT_EQ(infer(OpKind::Not, {boolean({2})}), "bool[2]");
  EXPECT_THAT(infer(OpKind::And, {boolean({2}), f32({2})}), HasSubstr("[logical_1]"));
  EXPECT_EQ(infer(OpKind::IsNan, {f32({2})}), "bool[2]");
  EXPECT_EQ(infer(OpKind::Where, {boolean({3, 1}), f32({4}), f32({2, 1, 1})}), "f32[2,3,4]");
  EXPECT_THAT(infer(OpKind::Where, {f32({}), f32({}), f32({})}), HasSubstr("[where_1]"));
  EXPECT_EQ(infer(OpKind::Cast, {f32({2})}, {{"to", std::string("bf16")}}), "bf16[2]");
  EXPECT_THAT(infer(OpKind::Cast, {f32({2})}, {{"to", std::string("f23")}}),
              HasSubstr("to=\"f23\" is not an element type; did you mean f"));
  EXPECT_THAT(infer(OpKind::TanhGrad, {f32({2}), f32({1})}), HasSubstr("[same_all_2]"));
  EXPECT_EQ(infer(OpKind::Copy, {boolean({7})}), "bool[7]");
}

TEST(Shapes, OperandCounts) {
  EXPECT_EQ(infer(OpKind::Add, {f32({})}), "add: takes 2 operands, has 1 [G3]");
  EXPECT_EQ(infer(OpKind::Neg, {}), "neg: takes 1 operand, has 0 [G3]");
  EXPECT_EQ(infer(OpKind::Concat, {}, {{"axis", int64_t(0)}}),
            "concat: takes at least 1 operand, has 0 [G3]");
  EXPECT_EQ(infer(OpKind::LayerNorm, {f32({2})}), "layer_norm: takes 2 to 3 operands, has 1 [G3]");
}

TEST(Shapes, Movement) {
  EXPECT_EQ(infer(OpKind::Reshape, {f32({2, 6})}, {{"dims", List{3, 4}}}), "f32[3,4]");
  EXPECT_EQ(infer(OpKind::Reshape, {f32({2, 6})}, {{"dims", List{5}}}),
            "reshape: element counts differ: [2,6] has 12, [5] has 5 [reshape_2]");
  EXPECT_THAT(infer(OpKind::Reshape, {f32({2})}, {{"dims", List{-1}}}), HasSubstr("[reshape_1]"));
  EXPECT_EQ(infer(OpKind::Transpose, {f32({2, 3, 5})}, {{"perm", List{2, 0, 1}}}), "f32[5,2,3]");
  for (List perm : {List{0, 1}, List{0, 0, 1}, List{0, 1, 3}, List{-1, 0, 1}})
    EXPECT_THAT(infer(OpKind::Transpose, {f32({2, 3, 5})}, {{"perm", perm}}),
                HasSubstr("[transpose_1]"));
  EXPECT_EQ(infer(OpKind::Broadcast, {f32({3, 1})}, {{"dims", List{2, 3, 4}}}), "f32[2,3,4]");
  EXPECT_THAT(infer(OpKind::Broadcast, {f32({3, 2})}, {{"dims", List{3, 1}}}),
              HasSubstr("[broadcast_to_3]"));
  EXPECT_THAT(infer(OpKind::Broadcast, {f32({3})}, {{"dims", List{2}}}),
              HasSubstr("[broadcast_to_2]"));
  EXPECT_EQ(infer(OpKind::Reverse, {f32({3, 2})}, {{"axes", List{0, 1}}}), "f32[3,2]");
  for (List axes : {List{2}, List{-1}, List{1, 0}, List{0, 0}})
    EXPECT_THAT(infer(OpKind::Reverse, {f32({3, 2})}, {{"axes", axes}}), HasSubstr("[reverse_1]"));
  EXPECT_THAT(infer(OpKind::Trilu, {f32({3})}), HasSubstr("[trilu_1]"));
}

std::string slice(List starts, List limits, List strides) {
  return infer(OpKind::Slice, {f32({7, 5})},
               {{"starts", starts}, {"limits", limits}, {"strides", strides}});
}
std::string pad(List dims, int64_t low, int64_t high, int64_t interior) {
  return infer(OpKind::Pad, {f32(std::move(dims))},
               {{"low", List{low}}, {"high", List{high}}, {"interior", List{interior}}});
}

TEST(Shapes, SliceAndPad) {
  EXPECT_EQ(slice({1, 0}, {7, 5}, {3, 2}), "f32[2,3]");
  EXPECT_EQ(slice({7, 0}, {7, 0}, {1, 1}), "f32[0,0]");
  EXPECT_EQ(slice({0, 0}, {7, 5}, {INT64_MAX, 1}), "f32[1,5]");
  EXPECT_THAT(slice({0}, {7}, {1}), HasSubstr("starts has 1 entries, operand 0 has rank 2"));
  EXPECT_THAT(slice({-1, 0}, {7, 5}, {1, 1}), HasSubstr("[slice_2]"));
  EXPECT_THAT(slice({3, 0}, {2, 5}, {1, 1}), HasSubstr("[slice_2]"));
  EXPECT_THAT(slice({0, 0}, {8, 5}, {1, 1}), HasSubstr("axis 0 with extent 7 [slice_2]"));
  EXPECT_THAT(slice({0, 0}, {7, 5}, {1, 0}), HasSubstr("[slice_3]"));
  EXPECT_EQ(pad({4}, 1, 2, 1), "f32[10]");
  EXPECT_EQ(pad({4}, -1, -3, 0), "f32[0]");
  EXPECT_EQ(pad({0}, 1, 0, 5), "f32[1]");
  EXPECT_THAT(pad({4}, -3, -2, 0), HasSubstr("would be negative [pad_4]"));
  EXPECT_THAT(pad({4}, 0, 0, -1), HasSubstr("[pad_3]"));
  EXPECT_THAT(pad({4}, 0, 0, INT64_MAX), HasSubstr("would overflow [pad_4]"));
  EXPECT_THAT(pad({4}, INT64_MAX - 4, 0, 0), HasSubstr("[size_1]"));
  EXPECT_THAT(infer(OpKind::Pad, {i64({1})},
                    {{"low", List{0}}, {"high", List{1}}, {"interior", List{0}}, {"value", 0.5}}),
              HasSubstr("value 0.5 is not a value of i64 [pad_2]"));
}

TEST(Shapes, ConcatAndGather) {
  Attrs axis0 = {{"axis", int64_t(0)}}, last = {{"axis", int64_t(-1)}};
  EXPECT_EQ(infer(OpKind::Concat, {f32({2, 3}), f32({2, 0}), f32({2, 4})}, last), "f32[2,7]");
  EXPECT_THAT(infer(OpKind::Concat, {f32({2, 3}), f32({2, 4})}, axis0), HasSubstr("[concat_3]"));
  EXPECT_THAT(infer(OpKind::Concat, {f32({2, 3}), f32({2})}, axis0), HasSubstr("[concat_3]"));
  EXPECT_THAT(infer(OpKind::Concat, {f32({}), f32({})}, axis0), HasSubstr("[concat_1]"));
  EXPECT_THAT(infer(OpKind::Concat, {f32({2}), f64({2})}, axis0), HasSubstr("[concat_2]"));
  EXPECT_EQ(infer(OpKind::Gather, {f32({5, 3}), i64({2, 4})}), "f32[2,4,3]");
  EXPECT_EQ(infer(OpKind::Gather, {f32({5, 3}), i64({})}, last), "f32[5]");
  EXPECT_THAT(infer(OpKind::Gather, {f32({5, 3}), f32({2})}), HasSubstr("[gather_2]"));
  EXPECT_THAT(infer(OpKind::Gather, {f32({5}), i64({2})}, {{"axis", int64_t(1)}}),
              HasSubstr("axis 1 is not in [-1, 1) for rank 1 [gather_1]"));
  EXPECT_EQ(infer(OpKind::GatherGrad, {f32({2, 4, 3}), i64({2, 4})}, {{"dims", List{5, 3}}}),
            "f32[5,3]");
  EXPECT_THAT(infer(OpKind::GatherGrad, {f32({2, 3}), i64({4})}, {{"dims", List{5, 3}}}),
              HasSubstr("operand 0 is f32[2,3], expected f32[4,3] [gather_grad_3]"));
}

TEST(Shapes, IotaAndFill) {
  auto iota = [](List dims, int64_t start, int64_t step, const char *dtype) {
    return infer(OpKind::Iota, {},
                 {{"dims", dims}, {"start", start}, {"step", step}, {"dtype", std::string(dtype)}});
  };
  EXPECT_EQ(iota({4, 2}, 0, 1, "i32"), "i32[4,2]");
  EXPECT_THAT(iota({}, 0, 1, "i32"), HasSubstr("[iota_1]"));
  EXPECT_THAT(iota({4}, 0, 1, "bool"), HasSubstr("[iota_2]"));
  EXPECT_THAT(iota({4}, INT64_MAX - 2, 1, "i64"), HasSubstr("[iota_3]"));
  EXPECT_THAT(iota({300}, 0, 1, "u8"), HasSubstr("value 299.0 is not a value of u8 [iota_4]"));
  auto fill = [](List dims, double value, const char *dtype) {
    return infer(OpKind::Fill, {},
                 {{"dims", dims}, {"value", value}, {"dtype", std::string(dtype)}});
  };
  EXPECT_EQ(fill({}, 1e300, "f32"), "f32[]");
  EXPECT_THAT(fill({}, 2, "bool"), HasSubstr("[fill_3]"));
  EXPECT_THAT(fill({}, -1, "u64"), HasSubstr("[fill_3]"));
  EXPECT_THAT(fill({}, 128, "i8"), HasSubstr("[fill_3]"));
  EXPECT_THAT(fill({1 << 30, 1 << 30}, 0, "f32"), HasSubstr("more than 2^48 elements [fill_1]"));
  EXPECT_THAT(fill({0, int64_t(1) << 40, 1 << 20}, 0, "f32"), HasSubstr("[fill_1]"));
  EXPECT_THAT(fill(List(17, 1), 0, "f32"), HasSubstr("[size_2]"));
}

TEST(Shapes, ReductionsAndSoftmax) {
  auto sum = [](List axes, bool keep) {
    return infer(OpKind::ReduceSum, {f32({2, 3, 4})}, {{"axes", axes}, {"keepdims", keep}});
  };
  EXPECT_EQ(sum({0, 2}, false), "f32[3]");
  EXPECT_EQ(sum({0, 2}, true), "f32[1,3,1]");
  EXPECT_EQ(sum({}, false), "f32[2,3,4]");
  EXPECT_THAT(sum({2, 0}, false), HasSubstr("axes [2,0] are not strictly increasing [reduce_2]"));
  EXPECT_THAT(sum({3}, false), HasSubstr("[reduce_2]"));
  EXPECT_THAT(infer(OpKind::ReduceMax, {boolean({2})}, {{"axes", List{0}}}),
              HasSubstr("[reduce_1]"));
  EXPECT_EQ(infer(OpKind::Softmax, {f32({2, 3})}), "f32[2,3]");
  EXPECT_THAT(infer(OpKind::Softmax, {f32({})}), HasSubstr("[softmax_2]"));
  EXPECT_THAT(infer(OpKind::LogSoftmax, {i64({2})}), HasSubstr("[softmax_1]"));
  EXPECT_THAT(infer(OpKind::SoftmaxGrad, {f32({2}), f32({3})}), HasSubstr("[softmax_grad_1]"));
}

TEST(Shapes, Matmul) {
  Attrs a = {{"trans_a", true}}, b = {{"trans_b", true}};
  EXPECT_EQ(infer(OpKind::Matmul, {f32({2, 3}), f32({3, 5})}), "f32[2,5]");
  EXPECT_EQ(infer(OpKind::Matmul, {f32({3, 2}), f32({3, 5})}, a), "f32[2,5]");
  EXPECT_EQ(infer(OpKind::Matmul, {f32({2, 3}), f32({5, 3})}, b), "f32[2,5]");
  EXPECT_EQ(infer(OpKind::Matmul, {f32({4, 1, 2, 3}), f32({7, 3, 5})}), "f32[4,7,2,5]");
  EXPECT_EQ(infer(OpKind::Matmul, {f32({2, 64}), f32({128, 2})}),
            "matmul: inner sizes differ: lhs has 64, rhs has 128 [matmul_2]");
  EXPECT_THAT(infer(OpKind::Matmul, {f32({3}), f32({3, 5})}), HasSubstr("[matmul_1]"));
  EXPECT_THAT(infer(OpKind::Matmul, {f32({2, 3}), f64({3, 5})}), HasSubstr("[matmul_1]"));
  EXPECT_THAT(infer(OpKind::Matmul, {f32({2, 2, 3}), f32({3, 3, 5})}), HasSubstr("[matmul_3]"));
}

TEST(Shapes, Attention) {
  Type q = f32({2, 4, 5, 8}), k = f32({2, 2, 7, 8}), v = f32({2, 2, 7, 3});
  EXPECT_EQ(infer(OpKind::Attention, {q, k, v}), "f32[2,4,5,3] f32[2,4,5]");
  EXPECT_EQ(infer(OpKind::Attention, {f32({2, 5, 4, 8}), f32({2, 7, 2, 8}), f32({2, 7, 2, 3})},
                  {{"rows_first", true}}),
            "f32[2,5,4,3] f32[2,4,5]");
  EXPECT_EQ(infer(OpKind::AttentionGrad,
                  {f32({2, 4, 5, 3}), q, k, v, f32({2, 4, 5, 3}), f32({2, 4, 5}), boolean({5, 7})}),
            "f32[2,4,5,8] f32[2,2,7,8] f32[2,2,7,3]");
  EXPECT_THAT(infer(OpKind::Attention, {f32({4, 5, 8}), k, v}), HasSubstr("[attention_1]"));
  EXPECT_THAT(infer(OpKind::Attention, {q, f32({2, 2, 7, 9}), v}), HasSubstr("[attention_2]"));
  EXPECT_THAT(infer(OpKind::Attention, {q, f32({2, 3, 7, 8}), f32({2, 3, 7, 3})}),
              HasSubstr("4 heads of q do not divide into 3 of k and v [attention_3]"));
  EXPECT_THAT(infer(OpKind::Attention, {q, k, v, f32({2, 5, 7})}),
              HasSubstr("the mask is f32[2,5,7], expected bool or f32 that broadcasts to "
                        "[2,4,5,7] [attention_4]"));
  EXPECT_THAT(
      infer(OpKind::AttentionGrad, {f32({2, 4, 5, 3}), q, k, v, f32({2, 4, 5, 3}), f32({2, 4, 6})}),
      HasSubstr("[attention_grad_1]"));
}

TEST(Shapes, NormAndLosses) {
  EXPECT_EQ(infer(OpKind::LayerNorm, {f32({2, 3, 4}), f32({4}), f32({4})}),
            "f32[2,3,4] f32[2,3] f32[2,3]");
  EXPECT_EQ(infer(OpKind::LayerNorm, {f64({2, 3, 4}), f64({3, 4})}, {{"axis", int64_t(1)}}),
            "f64[2,3,4] f64[2] f64[2]");
  EXPECT_THAT(infer(OpKind::LayerNorm, {f32({2, 3}), f32({2})}),
              HasSubstr("operand 1 is f32[2], expected f32[3] [layer_norm_3]"));
  EXPECT_THAT(infer(OpKind::LayerNorm, {f32({2, 3}), f32({3})}, {{"eps", -1.0}}),
              HasSubstr("[layer_norm_4]"));
  EXPECT_EQ(infer(OpKind::LayerNormGrad, {f32({2, 3}), f32({2, 3}), f32({3}), f32({2}), f32({2})}),
            "f32[2,3] f32[3] f32[3]");
  EXPECT_THAT(
      infer(OpKind::LayerNormGrad, {f32({2, 3}), f32({2, 3}), f32({3}), f64({2}), f32({2})}),
      HasSubstr("[layer_norm_grad_3]"));
  EXPECT_EQ(infer(OpKind::Linear, {f32({2, 3, 4}), f32({4, 5}), f32({5})}), "f32[2,3,5]");
  EXPECT_EQ(infer(OpKind::Linear, {f32({3, 4}), f32({5, 4}), f32({5})}, {{"trans_b", true}}),
            "f32[3,5]");
  EXPECT_EQ(infer(OpKind::LinearGrad, {f32({2, 3, 4}), f32({2, 3, 5})}), "f32[4,5] f32[5]");
  EXPECT_EQ(infer(OpKind::LinearGeluGrad, {f32({3, 4}), f32({4, 5}), f32({3, 5})}), "f32[3,5]");
  EXPECT_EQ(infer(OpKind::Linear, {f32({2, 3}), f32({4, 5}), f32({5})}),
            "linear: inner sizes differ: x has 3, w has 4 [linear_2]");
  EXPECT_THAT(infer(OpKind::Linear, {f32({2, 4}), f32({2, 4, 5}), f32({5})}),
              HasSubstr("[linear_2]"));
  EXPECT_THAT(infer(OpKind::Linear, {f32({}), f32({4, 5}), f32({5})}), HasSubstr("[linear_2]"));
  EXPECT_THAT(infer(OpKind::Linear, {f32({2, 4}), f32({4, 5}), f32({4})}), HasSubstr("[linear_3]"));
  EXPECT_THAT(infer(OpKind::Linear, {i64({2, 4}), i64({4, 5}), i64({5})}), HasSubstr("[linear_1]"));
  EXPECT_THAT(infer(OpKind::LinearGrad, {f32({2, 3, 4}), f32({3, 2, 5})}), HasSubstr("[linear_4]"));
  EXPECT_THAT(infer(OpKind::LinearGeluGrad, {f32({3, 4}), f32({4, 5}), f32({3, 4})}),
              HasSubstr("[linear_5]"));
  EXPECT_EQ(infer(OpKind::RmsNorm, {f32({2, 3, 4}), f32({4})}), "f32[2,3,4] f32[2,3]");
  EXPECT_THAT(infer(OpKind::RmsNorm, {f32({2, 3}), f32({2})}), HasSubstr("[rms_norm_3]"));
  EXPECT_EQ(infer(OpKind::RmsNormGrad, {f32({2, 3}), f32({2, 3}), f32({3}), f32({2})}),
            "f32[2,3] f32[3]");
  EXPECT_EQ(infer(OpKind::LinearCrossEntropyGrad,
                  {f32({2, 3, 5}), f32({7, 5}), i64({2, 3}), f64({}), f64({}), f32({7})},
                  {{"trans_w", true}}),
            "f32[] f32[2,3,5] f32[7,5] f32[7]");
  EXPECT_EQ(
      infer(OpKind::LinearCrossEntropyGrad, {f32({2, 5}), f32({5, 7}), i64({2}), f64({}), f64({})}),
      "f32[] f32[2,5] f32[5,7] f32[0]");
  EXPECT_THAT(infer(OpKind::LinearCrossEntropy, {f32({2, 5}), f32({7, 5}), i64({2}), f64({})}),
              HasSubstr("inner sizes differ: x has 5, w has 7 [linear_cross_entropy_2]"));
  EXPECT_EQ(infer(OpKind::CrossEntropy, {f32({2, 3, 7}), i64({2, 3}), f64({})}), "f32[] f32[2,3]");
  EXPECT_EQ(infer(OpKind::CrossEntropy, {Type(DType::BF16, {7}), i64({}), f64({})}), "f32[] f32[]");
  EXPECT_THAT(infer(OpKind::CrossEntropy, {f32({2, 7}), i64({3}), f64({})}),
              HasSubstr("expected labels of [2] [cross_entropy_4]"));
  EXPECT_THAT(infer(OpKind::CrossEntropy, {f32({2, 7}), f32({2}), f64({})}),
              HasSubstr("[cross_entropy_3]"));
  EXPECT_THAT(infer(OpKind::CrossEntropy, {f32({}), i64({}), f64({})}),
              HasSubstr("[cross_entropy_2]"));
  EXPECT_THAT(infer(OpKind::CrossEntropy, {f32({2, 7}), i64({2}), f32({})}),
              HasSubstr("[cross_entropy_5]"));
  EXPECT_EQ(infer(OpKind::CrossEntropyGrad, {f32({2, 7}), i64({2}), f32({2}), f64({})}),
            "f32[2,7]");
  EXPECT_EQ(infer(OpKind::Mse, {f32({2}), f32({2}), f64({})}), "f32[]");
  EXPECT_THAT(infer(OpKind::MseGrad, {f32({2}), f32({1}), f64({})}), HasSubstr("[mse_2]"));
}

TEST(Shapes, Buckets) {
  auto view = [](int64_t at, List dims) {
    return infer(OpKind::View, {f32({512})}, {{"at", at}, {"dims", dims}});
  };
  EXPECT_EQ(view(384, {2, 64}), "f32[2,64]");
  EXPECT_THAT(view(385, {2, 64}), HasSubstr("[view_3]"));
  EXPECT_THAT(view(-1, {2}), HasSubstr("[view_3]"));
  EXPECT_THAT(view(0, {-2}), HasSubstr("[view_2]"));
  EXPECT_THAT(infer(OpKind::View, {f32({2, 2})}, {{"at", int64_t(0)}, {"dims", List{1}}}),
              HasSubstr("[view_1]"));
  auto pack = [](List at, int64_t elems) {
    return infer(OpKind::Pack, {f32({2, 3}), f32({4})}, {{"at", at}, {"elems", elems}});
  };
  EXPECT_EQ(pack({0, 6}, 10), "f32[10]");
  EXPECT_THAT(pack({0, 5}, 10), HasSubstr("[pack_4]"));
  EXPECT_THAT(pack({0, 7}, 10), HasSubstr("[pack_5]"));
  EXPECT_THAT(pack({0}, 10), HasSubstr("[pack_2]"));
  EXPECT_THAT(pack({-1, 6}, 10), HasSubstr("[pack_4]"));
  Attrs first = {{"first", true}};
  EXPECT_EQ(infer(OpKind::Accumulate, {Type(DType::BF16, {3})}, first), "f32[3]");
  EXPECT_EQ(infer(OpKind::Accumulate, {f32({3}), Type(DType::BF16, {3})}), "f32[3]");
  EXPECT_THAT(infer(OpKind::Accumulate, {f32({3})}), HasSubstr("[accumulate_2]"));
  EXPECT_THAT(infer(OpKind::Accumulate, {f32({3}), f32({3})}, first), HasSubstr("[accumulate_2]"));
  EXPECT_THAT(infer(OpKind::Accumulate, {f64({3}), f32({3})}), HasSubstr("[accumulate_3]"));
}

TEST(Shapes, Collectives) {
  for (OpKind op : {OpKind::Own, OpKind::AllGather, OpKind::ReduceScatter, OpKind::AllReduce}) {
    EXPECT_EQ(infer(op, {f32({512})}, {{"over", std::string("dp")}}), "f32[512]");
    EXPECT_EQ(infer(op, {f32({512})}, {{"over", std::string("dp,tp")}}), "f32[512]");
    for (const char *over : {"", "pp", "dp,", "dp,dp"})
      EXPECT_THAT(infer(op, {f32({512})}, {{"over", std::string(over)}}),
                  HasSubstr("expected distinct axes of the mesh, which has \"dp,tp\""));
    if (op == OpKind::AllReduce)
      continue;
    EXPECT_THAT(infer(op, {f32({514})}, {{"over", std::string("dp")}}),
                HasSubstr("f32[514] does not divide by 4 ranks"));
  }
  EXPECT_EQ(infer(OpKind::ReduceScatter, {Type(DType::BF16, {8})}, {{"over", std::string("dp")}}),
            "f32[8]");
  EXPECT_EQ(infer(OpKind::AllReduce, {i64({3, 3})}, {{"over", std::string("dp")}}), "i64[3,3]");
}

TEST(Shapes, Update) {
  Type bins = i64({kBinSlots}), skip = boolean({}), lr = f64({2}), one = f64({}), p = f32({128});
  EXPECT_EQ(infer(OpKind::SumSquares, {p, f64({256})}), bins.str());
  EXPECT_THAT(infer(OpKind::SumSquares, {Type(DType::BF16, {128})}), HasSubstr("[sum_squares_1]"));
  EXPECT_EQ(infer(OpKind::ClipFactor, {bins}), "f64[] f64[] bool[]");
  EXPECT_THAT(infer(OpKind::ClipFactor, {i64({3})}), HasSubstr("[clip_factor_1]"));
  EXPECT_THAT(infer(OpKind::ClipFactor, {bins}, {{"max_norm", -1.0}}),
              HasSubstr("[clip_factor_2]"));
  EXPECT_EQ(infer(OpKind::InvCount, {f64({})}), "f64[]");
  Attrs warmup = {{"kind", std::string("warmup")}, {"warmup", int64_t(10)}};
  EXPECT_EQ(infer(OpKind::LrSchedule, {lr, i64({}), skip}, warmup), "f64[2]");
  EXPECT_THAT(infer(OpKind::LrSchedule, {lr, i64({}), skip}, {{"kind", std::string("warmupp")}}),
              HasSubstr("did you mean warmup [lr_schedule_2]"));
  EXPECT_THAT(infer(OpKind::LrSchedule, {lr, i64({}), skip}, {{"kind", std::string("warmup")}}),
              HasSubstr("[lr_schedule_3]"));
  EXPECT_EQ(infer(OpKind::Advance, {i64({}), skip}, {{"add", 1.0}}), "i64[]");
  EXPECT_THAT(infer(OpKind::Advance, {i64({}), skip}, {{"mul", 0.5}}), HasSubstr("[advance_2]"));
  EXPECT_THAT(infer(OpKind::Advance, {f32({}), skip}), HasSubstr("[advance_1]"));
  EXPECT_EQ(infer(OpKind::Sgd, {p, p, p, lr, lr, one, skip}), "f32[128] f32[128]");
  EXPECT_THAT(infer(OpKind::Sgd, {p, p, f32({256}), lr, lr, one, skip}), HasSubstr("[sgd_1]"));
  EXPECT_THAT(infer(OpKind::Sgd, {p, p, p, lr, f64({3}), one, skip}), HasSubstr("[sgd_2]"));
  EXPECT_THAT(infer(OpKind::Sgd, {p, p, p, lr, lr, one, skip}, {{"dampening", 0.1}}),
              HasSubstr("[sgd_3]"));
  EXPECT_EQ(infer(OpKind::Adam, {p, p, p, p, lr, lr, one, skip, one, one}),
            "f32[128] f32[128] f32[128]");
  EXPECT_THAT(infer(OpKind::Adam, {p, p, p, p, lr, lr, one, skip, one, f32({})}),
              HasSubstr("[adam_2]"));
  EXPECT_THAT(infer(OpKind::Adam, {p, p, p, p, lr, lr, one, skip, one, one}, {{"b2", 1.0}}),
              HasSubstr("[adam_3]"));
  auto rounded = [&](const char *to) {
    return infer(OpKind::AdamRound, {p, p, p, p, lr, lr, one, skip, one, one},
                 {{"to", std::string(to)}});
  };
  EXPECT_EQ(rounded("bf16"), "bf16[128] f32[128] f32[128] f32[128]");
  EXPECT_THAT(rounded("f32"), HasSubstr("rounds f32[128] to f32, expected f32 to bf16 or f16 "
                                        "[adam_round_1]"));
}

TEST(Shapes, BatchNorm) {
  Type x = f32({4, 3, 5, 5}), c = f32({3});
  EXPECT_EQ(infer(OpKind::BatchNorm, {x, c, c}), "f32[4,3,5,5] f32[3] f32[3]");
  EXPECT_EQ(infer(OpKind::BatchNormGrad, {x, x, c, c, c}), "f32[4,3,5,5] f32[3] f32[3]");
  EXPECT_THAT(infer(OpKind::BatchNorm, {i64({4, 3}), c, c}), HasSubstr("[batch_norm_1]"));
  EXPECT_THAT(infer(OpKind::BatchNorm, {c, c, c}), HasSubstr("[batch_norm_2]"));
  EXPECT_EQ(infer(OpKind::BatchNorm, {x, c, f32({4})}),
            "batch_norm: operand 2 is f32[4], expected f32[3] [batch_norm_3]");
  EXPECT_THAT(infer(OpKind::BatchNormGrad, {c, x, c, c, c}), HasSubstr("[batch_norm_3]"));
  EXPECT_THAT(infer(OpKind::BatchNorm, {x, c, c}, {{"eps", -1.0}}), HasSubstr("[batch_norm_4]"));
  EXPECT_EQ(infer(OpKind::Track, {c, c}, {{"keep", 0.9}}), "f32[3]");
  EXPECT_THAT(infer(OpKind::Track, {c, f32({4})}, {{"keep", 0.9}}), HasSubstr("[track_1]"));
  EXPECT_THAT(infer(OpKind::Track, {c, c}, {{"keep", 1.5}}), HasSubstr("[track_2]"));
}

TEST(Shapes, Windows) {
  Attrs strided = {{"strides", List{2, 2}}, {"low", List{3, 3}}, {"high", List{3, 3}}};
  EXPECT_EQ(infer(OpKind::Conv, {f32({8, 3, 224, 224}), f32({64, 3, 7, 7})}, strided),
            "f32[8,64,112,112]");
  EXPECT_EQ(infer(OpKind::Conv, {f32({2, 6, 9}), f32({4, 3, 3})}, {{"groups", int64_t{2}}}),
            "f32[2,4,7]");
  Attrs grad = strided;
  grad.set("dims", List{8, 3, 224, 224});
  EXPECT_EQ(infer(OpKind::ConvGradInput, {f32({8, 64, 112, 112}), f32({64, 3, 7, 7})}, grad),
            "f32[8,3,224,224]");
  EXPECT_THAT(infer(OpKind::ConvGradInput, {f32({8, 64, 113, 112}), f32({64, 3, 7, 7})}, grad),
              HasSubstr("expected f32[8,64,112,112] [conv_6]"));
  grad.set("dims", List{64, 3, 7, 7});
  EXPECT_EQ(infer(OpKind::ConvGradWeight, {f32({8, 64, 112, 112}), f32({8, 3, 224, 224})}, grad),
            "f32[64,3,7,7]");
  Type x = f32({1, 2, 5}), w = f32({3, 2, 3});
  EXPECT_THAT(infer(OpKind::Conv, {i64({1, 2, 5}), w}), HasSubstr("[conv_1]"));
  EXPECT_THAT(infer(OpKind::Conv, {f32({1, 2}), w}), HasSubstr("[conv_2]"));
  EXPECT_THAT(infer(OpKind::Conv, {x, f64({3, 2, 3})}), HasSubstr("[conv_3]"));
  EXPECT_EQ(infer(OpKind::Conv, {x, f32({3, 1, 3})}),
            "conv: x has 2 channels, w has dims [3,1,3]: expected 1 groups to divide 3 and to have "
            "1 channels each [conv_4]");
  EXPECT_THAT(infer(OpKind::ConvGradWeight, {x, x}, {{"dims", List{1, -2, 3}}}),
              HasSubstr("[conv_5]"));
  EXPECT_THAT(infer(OpKind::Conv, {x, w}, strided), HasSubstr("[window_1]"));
  EXPECT_THAT(infer(OpKind::Conv, {x, w}, {{"strides", List{0}}}), HasSubstr("[window_2]"));
  EXPECT_EQ(infer(OpKind::Conv, {x, w}, {{"dilations", List{3}}}),
            "conv: a window of 3 with dilation 3 does not fit into axis 2, which has 5 elements "
            "with padding [window_3]");
  EXPECT_THAT(infer(OpKind::Conv, {x, w}, {{"dilations", List{int64_t(1) << 48}}}),
              HasSubstr("[window_3]"));

  Attrs pool = {{"window", List{2}}, {"strides", List{2}}};
  EXPECT_EQ(infer(OpKind::MaxPool, {x}, pool), "f32[1,2,2]");
  EXPECT_EQ(infer(OpKind::MaxPoolGrad, {f32({1, 2, 2}), x}, pool), "f32[1,2,5]");
  EXPECT_THAT(infer(OpKind::MaxPoolGrad, {f32({1, 2, 3}), x}, pool), HasSubstr("[pool_3]"));
  EXPECT_THAT(infer(OpKind::AvgPool, {i64({1, 2, 5})}, pool), HasSubstr("[pool_1]"));
  EXPECT_THAT(infer(OpKind::AvgPool, {f32({5})}, pool), HasSubstr("[pool_2]"));
  pool.set("dims", List{1, 2, 5});
  EXPECT_EQ(infer(OpKind::AvgPoolGrad, {f32({1, 2, 2})}, pool), "f32[1,2,5]");
  pool.set("dims", List{1, 2, -5});
  EXPECT_THAT(infer(OpKind::AvgPoolGrad, {f32({1, 2, 2})}, pool), HasSubstr("[pool_4]"));
}

} // namespace
} // namespace ds
