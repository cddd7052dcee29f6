// SPDX-License-Identifier: Apache-2.0
//
// Ops that stand for several: the numbers are PyTorch's, in f64.
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

#include <limits>

namespace ds::optest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType F = DType::F64;

const Tensor q(F, {1, 2, 3, 2},
               {0.75, -0.25, 1.375, -0.625, 1.125, -1.875, -1.375, 0.875, -0.625, -2.0, 0.5, -0.5});
const Tensor k(F, {1, 1, 4, 2}, {-1.5, -1.375, 0.0, -1.25, -2.0, 0.625, -1.75, 0.375});
const Tensor v(F, {1, 1, 4, 3},
               {-0.5, 1.75, -1.375, -0.75, -0.5, 0.25, 0.75, 0.125, 2.0, -1.5, 0.125, -1.0});
const Tensor dO(F, {1, 2, 3, 3},
                {-2.0, 0.25, 1.5, 0.625, -0.25, 1.0, 1.625, 2.0, -2.0, -1.0, -1.75, 1.25, 1.75,
                 -1.625, -0.125, 1.0, 0.875, -0.75});

/// o, lse, dq, dk, dv.
std::vector<Tensor> attention(const Attrs &attrs, const std::vector<Tensor> &mask) {
  std::vector<Tensor> ins = {q, k, v};
  ins.insert(ins.end(), mask.begin(), mask.end());
  Outcome o = run({OpKind::Attention, attrs, ins});
  EXPECT_EQ(o.error, "");
  EXPECT_TRUE(o.sameStrided);
  std::vector<Tensor> all = o.outs;
  ins = {dO, q, k, v, o.outs[0], o.outs[1]};
  ins.insert(ins.end(), mask.begin(), mask.end());
  Outcome g = run({OpKind::AttentionGrad, attrs, ins});
  EXPECT_EQ(g.error, "");
  EXPECT_TRUE(g.sameStrided);
  all.insert(all.end(), g.outs.begin(), g.outs.end());
  return all;
}

TEST(RefFused, AttentionWithAMask) {
  Tensor mask(F, {3, 4}, {0, -1.5, 0, 0, 0.75, 0, 0, 0, 0, 0, 0, -kInf});
  std::vector<Tensor> r = attention({{"scale", 0.625}}, {mask});
  expectNear(r[0],
             Tensor(F, {1, 2, 3, 3},
                    {-0.523612928884346, 0.625013276245293, -0.290508030977231, -0.643172299302611,
                     0.328846591931755, -0.295950471939286, -0.650974369659702, 0.14616656283048,
                     -0.174774382247252, -0.219600252476449, 0.303325403980258, 0.516712473496415,
                     -0.541890285542402, 1.240748176862626, -0.964288399138325, -0.437188026097312,
                     0.346903393288775, -0.025091401155255}),
             1e-13);
  expectNear(r[1],
             Tensor(F, {1, 2, 3},
                    {0.50400959778232, 1.085185420671906, 1.82285099980085, 2.721117809062005,
                     3.340206562050972, 1.057751695532917}),
             1e-13);
  expectNear(r[2],
             Tensor(F, {1, 2, 3, 2},
                    {0.06978265577896, 0.426839922146025, 0.318586003141746, 0.136052104733988,
                     -1.496617356195812, -0.176095143695818, -0.164788632001303, 0.652938693555559,
                     0.32450991031065, 0.201317797269939, -0.581156454132698, -0.15100651988509}),
             1e-13);
  expectNear(r[3],
             Tensor(F, {1, 1, 4, 2},
                    {1.408698483004128, -1.526918123248522, -1.096717159863051, 1.433693329825078,
                     -0.427864309737702, 0.161079263916111, 0.115882986596625, -0.067854470492666}),
             1e-13);
  expectNear(r[4],
             Tensor(F, {1, 1, 4, 3},
                    {1.464054592629284, -0.554046346389794, 0.125807542374344, 1.953885091421094,
                     1.462871464986848, -0.998570899490143, -0.670201939781167, -0.74792600713784,
                     0.857824297157227, -0.747737744269211, -0.660899111459214, 0.889939059958572}),
             1e-13);
}

TEST(RefFused, CausalAttention) {
  std::vector<Tensor> r = attention({{"scale", 0.625}, {"causal", true}}, {});
  expectNear(r[0],
             Tensor(F, {1, 2, 3, 3},
                    {-0.5, 1.75, -1.375, -0.693901201998829, 0.004889182010543, -0.114642187007615,
                     -0.650974369659702, 0.14616656283048, -0.174774382247252, -0.5, 1.75, -1.375,
                     -0.580631495766093, 1.024316538105162, -0.850895277520394, -0.437188026097312,
                     0.346903393288775, -0.025091401155255}),
             1e-13);
  expectNear(r[2],
             Tensor(F, {1, 2, 3, 2},
                    {0.0, 0.0, 0.33142761731371, 0.027618968109476, -1.496617356195812,
                     -0.176095143695818, 0.0, 0.0, 0.617740339590197, 0.051478361632517,
                     -0.581156454132698, -0.15100651988509}),
             1e-13);
  expectNear(r[3],
             Tensor(F, {1, 1, 4, 2},
                    {1.341005854362634, -1.199147006759204, -1.287575209202739, 1.126843166655819,
                     -0.053430645159896, 0.072303840103385, 0.0, 0.0}),
             1e-13);
  expectNear(r[4],
             Tensor(F, {1, 1, 4, 3},
                    {-0.882156171335207, -1.801006718308502, 2.075465237286084, 2.698339973202178,
                     1.129163452613713, -1.047732693647951, 0.183816198133029, 0.171843265694788,
                     -0.152732543638133, 0.0, 0.0, 0.0}),
             1e-13);
}

// A false of a boolean mask is -inf; a row that sees nothing gives zeros, and no gradient.
TEST(RefFused, AttentionThatSeesNothing) {
  Tensor seen(DType::Bool, {3, 4}, {1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1});
  Tensor added = tabulate(F, seen.dims, [&](const Dims &i) { return seen.at(i) != 0 ? 0 : -kInf; });
  std::vector<Tensor> r = attention({{"scale", 0.625}}, {seen}),
                      s = attention({{"scale", 0.625}}, {added});
  for (size_t i = 0; i < r.size(); ++i)
    expectEqual(r[i], s[i]);
  for (int64_t e = 0; e < 3; ++e)
    EXPECT_EQ(r[0].at({0, 1, 1, e}), 0);
  EXPECT_EQ(r[1].at({0, 0, 1}), -kInf);
  EXPECT_EQ(r[2].at({0, 0, 1, 0}), 0);
}

Tensor turned(const Tensor &t) {
  return tabulate(t.dtype, {t.dims[1], t.dims[0]}, [&](const Dims &i) {
    return t.at({i[1], i[0]});
  });
}

// rows_first is the same with other axes.
TEST(RefFused, AttentionOfRowsFirst) {
  auto turned = [](const Tensor &t) {
    return tabulate(t.dtype, {t.dims[0], t.dims[2], t.dims[1], t.dims[3]}, [&](const Dims &i) {
      return t.at({i[0], i[2], i[1], i[3]});
    });
  };
  Attrs attrs = {{"scale", 0.5}, {"causal", true}}, rows = attrs;
  rows.set("rows_first", true);
  std::vector<Tensor> r = attention(attrs, {});
  Outcome o = run({OpKind::Attention, rows, {turned(q), turned(k), turned(v)}});
  expectEqual(turned(r[0]), o.outs[0]);
  expectEqual(r[1], o.outs[1]);
  Outcome g = run({OpKind::AttentionGrad,
                   rows,
                   {turned(dO), turned(q), turned(k), turned(v), o.outs[0], o.outs[1]}});
  for (size_t i = 0; i < 3; ++i)
    expectEqual(turned(r[2 + i]), g.outs[i]);
}

TEST(RefFused, LinearCrossEntropy) {
  Tensor x(F, {5, 3},
           {-1.25, -2.0, -1.5, 1.0, 0.625, 0.75, 0.125, -1.375, -1.25, -2.0, -0.75, 1.5, 0.25,
            -1.75, 0.625});
  Tensor w(F, {4, 3},
           {-0.875, 1.5, -0.625, 1.5, 1.875, -1.5, 1.25, -1.375, -1.375, 1.5, 1.75, -1.0});
  Tensor bias(F, {4}, {1.75, -0.25, -0.375, 1.375}), labels(DType::I64, {5}, {1, 3, -100, 0, 2});
  Tensor loss(F, {}, {1.746702411957499});
  Tensor dx(F, {5, 3},
            {-0.240250285812248, -1.45958428063969, 0.104101845163211, -0.139950895775879,
             -0.024853934641797, -0.008024562252354, 0.0, 0.0, 0.0, 0.008626961378469,
             -0.006422306371152, -0.002403633310332, -0.045986556134321, 0.120426838798369,
             0.023118871632965});
  Tensor dw(F, {4, 3},
            {0.003819282882197, -0.111050747655338, -0.029138752349364, 0.680040820148969,
             1.030336588329726, 0.792020318617356, -0.562728786176525, -0.813167953137416,
             -0.681626258161897, -0.121131316854642, -0.106117887536972, -0.081255308106094});
  Tensor dbias(F, {4},
               {0.132630202539549, -0.441804526499971, 0.410256181250204, -0.101081857289782});
  for (bool trans : {false, true}) {
    Attrs attrs = {{"trans_w", trans}};
    Tensor given = trans ? w : turned(w);
    expectNear(run1(OpKind::LinearCrossEntropy, {x, given, labels, scalar(0.25), bias}, attrs),
               loss, 1e-13);
    Outcome o = run({OpKind::LinearCrossEntropyGrad,
                     attrs,
                     {x, given, labels, scalar(0.25), scalar(0.5), bias}});
    ASSERT_EQ(o.error, "");
    EXPECT_TRUE(o.sameStrided);
    expectNear(o.outs[0], loss, 1e-13);
    expectNear(o.outs[1], dx, 1e-13);
    expectNear(o.outs[2], trans ? dw : turned(dw), 1e-13);
    expectNear(o.outs[3], dbias, 1e-13);
  }
  // Without a bias it is one of zeros.
  Tensor none(F, {4}, {0, 0, 0, 0});
  expectEqual(run1(OpKind::LinearCrossEntropy, {x, turned(w), labels, scalar(1)}),
              run1(OpKind::LinearCrossEntropy, {x, turned(w), labels, scalar(1), none}));
  Tensor bad(DType::I32, {5}, {0, 1, 2, 4, 0});
  for (OpKind op : {OpKind::LinearCrossEntropy, OpKind::LinearCrossEntropyGrad}) {
    std::vector<Tensor> ins = {x, turned(w), bad, scalar(1)};
    if (op == OpKind::LinearCrossEntropyGrad)
      ins.push_back(scalar(1));
    EXPECT_THAT(errorOf(op, ins), testing::HasSubstr("label 4 of row 3 is not in [0, 4)"));
  }
}

// As torch.nn.functional.linear and gelu, in f64.
TEST(RefFused, Linear) {
  Tensor x(F, {2, 2, 3},
           {1.125, 1.5, 1.0, -0.625, 0.375, -1.25, -1.375, -0.125, 0.375, 0.25, 0.75, 1.25});
  Tensor w(
      F, {4, 3},
      {0.875, 0.125, -0.875, 0.875, 1.625, 0.375, -1.75, -1.75, -0.25, -1.125, -0.375, -1.125});
  Tensor bias(F, {4}, {-0.25, 1.125, -1.75, 0.25});
  Tensor dy(F, {2, 2, 4},
            {0.0, -1.375, -0.125, 0.125, 0.25, -1.0, 1.375, -0.5, 0.875, 1.25, -0.25, -0.625, -1.0,
             1.125, -0.5, -1.25});
  Tensor y(F, {2, 2, 4},
           {0.046875, 4.921875, -6.59375, -2.703125, 0.34375, 0.71875, -1.0, 2.21875, -1.796875,
            -0.140625, 0.78125, 1.421875, -1.03125, 3.03125, -3.8125, -1.71875});
  expectEqual(run1(OpKind::Linear, {x, w, bias}, {{"trans_b", true}}), y);
  expectEqual(run1(OpKind::Linear, {x, turned(w), bias}), y);
  Tensor dw(F, {4, 3},
            {-1.609375, -0.765625, -1.234375, -2.359375, -1.75, 1.75, -0.78125, -0.015625, -2.5625,
             1.0, -0.859375, -1.046875});
  for (bool trans : {true, false}) {
    Outcome g = run({OpKind::LinearGrad, {{"trans_b", trans}}, {x, dy}});
    EXPECT_TRUE(g.sameStrided);
    expectEqual(g.outs[0], trans ? dw : turned(dw));
    expectEqual(g.outs[1], Tensor(F, {4}, {0.125, 0.0, 0.5, -2.25}));
  }
}

TEST(RefFused, LinearGeluGrad) {
  Tensor h(F, {2, 2, 4},
           {-0.25, 1.5, -0.25, 1.625, 0.625, -1.5, -1.75, 1.625, 1.75, -0.125, 0.875, 0.625, 0.0,
            -1.5, 1.625, 0.375});
  Tensor v(F, {3, 4},
           {0.875, 0.75, -1.375, 0.875, 0.625, 0.5, 1.25, 0.0, -0.75, 1.75, -0.375, -1.375});
  Tensor dy(F, {2, 2, 3},
            {-0.625, 0.125, 0.5, -1.375, -0.125, 0.25, -1.375, -0.875, -1.5, -1.0, 0.25, 0.125});
  Tensor exact(F, {2, 2, 4},
               {-0.257028731816932, 0.528501183857803, 0.252268940486989, -1.383787954647836,
                -1.379325268308698, 0.083651657400924, -0.181988216619855, -1.734114019115643,
                -0.694328844426611, -1.640701575735467, 1.423620653959347, 0.80705201869126,
                -0.40625, 0.051784359343429, 1.839211838455985, -0.822441150008601});
  Tensor tanh(F, {2, 2, 4},
              {-0.257044982216293, 0.528614434289734, 0.252284889953028, -1.384369464180614,
               -1.379021179911723, 0.083810208005628, -0.18308879758838, -1.734842746251656,
               -0.694748113367002, -1.640711931021072, 1.423153993637316, 0.8068740946292, -0.40625,
               0.05188250971777, 1.839984730872968, -0.822378615112749});
  for (bool form : {false, true}) {
    expectNear(run1(OpKind::LinearGeluGrad, {dy, v, h}, {{"tanh", form}}), form ? tanh : exact,
               1e-13);
    expectNear(
        run1(OpKind::LinearGeluGrad, {dy, turned(v), h}, {{"tanh", form}, {"trans_b", true}}),
        form ? tanh : exact, 1e-13);
  }
}

TEST(RefFused, RmsNorm) {
  Tensor x(F, {3, 4},
           {1.375, 1.625, 0.25, 0.375, -1.625, 1.125, -0.375, 0.375, 1.0, 2.0, 1.875, -1.5});
  Tensor scale(F, {4}, {1.75, 0.625, -0.875, 1.0});
  Tensor dy(F, {3, 4},
            {1.25, -0.25, 1.125, 1.25, 2.0, -1.625, -1.125, 0.375, 1.375, 0.75, 0.5, -0.125});
  Outcome o = run({OpKind::RmsNorm, {{"eps", 0.125}}, {x, scale}});
  EXPECT_TRUE(o.sameStrided && o.sameInPlace);
  expectNear(o.outs[0],
             Tensor(F, {3, 4},
                    {2.103479704126389, 0.887832342650749, -0.191225427647854, 0.327815018824892,
                     -2.626943724812797, 0.649519052838329, 0.303108891324553, 0.346410161513775,
                     1.042774491813402, 0.744838922723859, -0.977601086075065, -0.89380670726863}),
             1e-13);
  Outcome g = run({OpKind::RmsNormGrad, {}, {dy, x, scale, o.outs[1]}});
  EXPECT_TRUE(g.sameStrided && g.sameInPlace);
  expectNear(g.outs[0],
             Tensor(F, {3, 4},
                    {1.228735498421261, -0.944384510699272, -0.9847905658803, 0.906302517218868,
                     0.972738978539655, 0.626713717205338, 0.387690705760834, 0.868046129726602,
                     1.290425685641387, -0.007463885182635, -0.529548449082178, 0.140599968630676}),
             1e-13);
  expectNear(
      g.outs[1],
      Tensor(F, {4}, {-0.680413081842388, -1.150075767171324, 1.19420188786456, 0.651398422507359}),
      1e-13);
}

} // namespace
} // namespace ds::optest
