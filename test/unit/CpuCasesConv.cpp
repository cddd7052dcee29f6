// SPDX-License-Identifier: Apache-2.0
//
// Parity cases of convolution, pooling and batch normalisation: 1 to 3 axes, groups, strides, dilations, uneven padding, windows that do
// not end flush, and shapes that oneDNN does not take.
#include "test/unit/CpuCases.h"

#include "ir/Shapes.h"

namespace ds::test {

namespace {

struct Shape {
  Dims x, w; // w: also the window of pools, behind its first two axes
  Dims strides = {}, low = {}, high = {}, dilations = {};
  int64_t groups = 1;
};

const Shape kShapes[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}},
    {{2, 3, 9, 8}, {5, 3, 3, 3}, {}, {1, 1}, {1, 1}},
    {{2, 3, 20, 20}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {3, 3}},
    {{2, 16, 8, 8}, {32, 16, 3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {{3, 16, 7, 7}, {16, 16, 1, 1}, {2, 2}},
    {{2, 4, 10, 7}, {6, 2, 3, 2}, {2, 1}, {2, 0}, {0, 1}, {1, 2}, 2},
    {{2, 8, 6, 6}, {8, 1, 3, 3}, {}, {1, 1}, {1, 1}, {}, 8},
    {{1, 2, 11}, {3, 2, 4}, {3}, {2}, {1}, {2}},
    {{2, 2, 4, 5, 6}, {4, 2, 2, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}},
    {{1, 3, 8, 8}, {4, 3, 4, 4}, {4, 4}},
    {{1, 1, 6, 6}, {1, 1, 2, 2}, {5, 4}}, // elements that no window covers
    {{0, 3, 4, 4}, {2, 3, 2, 2}},
    {{2, 32, 14, 14}, {32, 32, 3, 3}, {}, {1, 1}, {1, 1}},
};

Attrs attrsOf(const Shape &s) {
  return {{"strides", s.strides}, {"low", s.low}, {"high", s.high}, {"dilations", s.dilations}};
}

Dims resultOf(OpKind op, const std::vector<Dims> &in, Attrs attrs) {
  std::vector<Type> types, out;
  for (const Dims &d : in)
    types.emplace_back(DType::F32, d);
  const std::vector<std::pair<std::string, int64_t>> mesh;
  if (!completeAttrs(attrs, info(op).attrs, info(op).text).ok() ||
      !inferShape({op, types, attrs, mesh, out}).ok())
    return {};
  return out[0].dims;
}

} // namespace

Cases convCases(const std::string &op) {
  Cases cases;
  for (const Shape &s : kShapes) {
    Attrs attrs = attrsOf(s);
    attrs.set("groups", s.groups);
    Dims y = resultOf(OpKind::Conv, {s.x, s.w}, attrs), in[2] = {s.x, s.w}, out = y;
    if (op != "conv") {
      in[0] = y;
      (op == "conv_grad_input" ? out : in[1]) = s.x;
      (op == "conv_grad_input" ? in[1] : out) = s.w;
      attrs.set("dims", out);
    }
    pushLayouts(
        cases,
        {"", op, attrs, {f32(in[0], even), f32(in[1], even)}, {result(DType::F32, out)}, {}, {}});
  }
  return cases;
}

// Few different values, so that windows have equal largest elements; and NaN.
static double repeated() {
  return engine() % 20 == 0 ? std::nan("") : static_cast<double>(engine() % 4);
}

Cases poolCases(const std::string &op) {
  Cases cases;
  bool isMax = op.rfind("max", 0) == 0, isGrad = op.find("grad") != std::string::npos;
  for (const Shape &s : kShapes)
    for (bool counts : {false, true}) {
      if (isMax && counts)
        continue;
      Attrs attrs = attrsOf(s);
      attrs.set("window", Dims(s.w.begin() + 2, s.w.end()));
      if (!isMax)
        attrs.set("count_padding", counts);
      Dims y = resultOf(isMax ? OpKind::MaxPool : OpKind::AvgPool, {s.x}, attrs);
      std::vector<Tensor> ins = {f32(isGrad ? y : s.x, isMax && !isGrad ? repeated : even)};
      if (isGrad && isMax)
        ins.push_back(f32(s.x, repeated));
      if (isGrad && !isMax)
        attrs.set("dims", s.x);
      pushLayouts(cases, {"", op, attrs, ins, {result(DType::F32, isGrad ? s.x : y)}, {}, {}});
    }
  return cases;
}

Cases batchNormCases(const std::string &op) {
  Cases cases;
  for (const Dims &x : {Dims{1, 1, 2},
                        {4, 3},
                        {2, 3, 5, 7},
                        {3, 17, 4, 4},
                        {2, 5, 3, 2, 4},
                        {4, 2, 40, 60},
                        {0, 2, 3},
                        {2, 0, 3},
                        {8, 32, 7, 7}}) {
    Dims c = {x[1]};
    std::vector<Tensor> ins = {f32(x), f32(c), f32(c)}, outs = {result(DType::F32, x)};
    if (op == "batch_norm_grad")
      ins = {f32(x), f32(x), f32(c), f32(c), f32(c, positive)};
    for (int i = 0; i < 2; ++i)
      outs.push_back(result(DType::F32, c));
    pushLayouts(cases, {"", op, {{"eps", 1e-5}}, ins, outs, {}, {}});
  }
  return cases;
}

} // namespace ds::test
