// SPDX-License-Identifier: Apache-2.0
//
// Bodies of pointwise ops: text, limits, types; and that a group has the bits of its steps.
#include "ir/PointwiseBody.h"
#include "test/unit/CpuCases.h"
#include "test/unit/CudaParity.h"

#include <gmock/gmock.h>

#include <optional>

#ifdef DS_HAVE_CPU_DEVICE

using testing::HasSubstr;

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

TEST(PointwiseBody, ParsesWhatItPrints) {
  for (const char *text :
       {"neg(a)", "mul(mul(a, sigmoid(a)), b)", "where(lt(a, b), c, d)",
        "cast(gelu(a, tanh=true), to=bf16)", "t1 = sigmoid(a); mul(t1, sub(a, mul(a, t1)))",
        "t1 = exp(a); t2 = mul(t1, t1); add(t2, neg(t2))"}) {
    int operands = 1;
    for (char name : {'b', 'c', 'd'})
      operands += std::string(text).find(std::string(1, name) + ")") != std::string::npos ||
                  std::string(text).find(std::string(1, name) + ", d") != std::string::npos;
    auto body = parsePointwise(text, operands);
    ASSERT_TRUE(body.ok()) << text << ": " << body.status().str();
    EXPECT_EQ(pointwiseText(*body), text);
  }
  auto wide = parsePointwise(" gelu( a ,tanh = false ) ", 1);
  ASSERT_TRUE(wide.ok()) << wide.status().str();
  EXPECT_EQ(pointwiseText(*wide), "gelu(a)");
}

std::string errorOf(std::string_view text, int operands) {
  auto body = parsePointwise(text, operands);
  return body.ok() ? "" : body.status().entries()[0].text;
}

TEST(PointwiseBody, TellsWhatItCannotRead) {
  EXPECT_EQ(errorOf("", 1), "body, column 1: expected an operand, a name or an op");
  EXPECT_EQ(errorOf("a", 1), "body, column 2: the result must be a step of its own");
  EXPECT_EQ(errorOf("foo(a)", 1), "body, column 5: 'foo' is no op that a body may have");
  EXPECT_THAT(errorOf("matmul(a, a)", 1), HasSubstr("'matmul' is no op that a body may have"));
  EXPECT_THAT(errorOf("pow(a, a)", 1), HasSubstr("'pow' is no op that a body may have"));
  EXPECT_THAT(errorOf("neg(b)", 1), HasSubstr("'b' is neither one of the 1 operands nor defined"));
  EXPECT_THAT(errorOf("neg(a", 1), HasSubstr("expected ')'"));
  EXPECT_THAT(errorOf("neg(a) b", 1), HasSubstr("expected the end"));
  EXPECT_THAT(errorOf("neg(a, a)", 1), HasSubstr("'neg' takes 1 arguments"));
  EXPECT_THAT(errorOf("add(a)", 1), HasSubstr("'add' takes 2 arguments, has 1"));
  EXPECT_THAT(errorOf("neg(a)", 2), HasSubstr("operand b is not used"));
  EXPECT_THAT(errorOf("t1 = neg(a); exp(a)", 1), HasSubstr("t1 is not used"));
  EXPECT_THAT(errorOf("t1 = neg(a); t1 = exp(a); add(t1, t1)", 1),
              HasSubstr("'t1' has a value already"));
  EXPECT_THAT(errorOf("x = neg(a); exp(x)", 1), HasSubstr("'x' is no name for a step"));
  EXPECT_THAT(errorOf("t1 = a; exp(t1)", 1), HasSubstr("'t1' must name a step of its own"));
  EXPECT_THAT(errorOf("gelu(tanh=true, a)", 1), HasSubstr("an argument behind an attribute"));
  EXPECT_THAT(errorOf("gelu(a, tanh=true, tanh=true)", 1), HasSubstr("'tanh' is given twice"));
  EXPECT_THAT(errorOf("gelu(a, form=true)", 1), HasSubstr("form"));
  EXPECT_THAT(errorOf("cast(a)", 1), HasSubstr("to"));
  EXPECT_THAT(errorOf("neg(a)", 9), HasSubstr("takes 1 to 8 operands, has 9"));
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "neg(";
  EXPECT_THAT(errorOf(deep, 1), HasSubstr("more than 16 steps"));
}

std::string typesOf(const char *text, std::vector<Type> in) {
  auto body = parsePointwise(text, static_cast<int>(in.size()));
  EXPECT_TRUE(body.ok()) << body.status().str();
  auto types = pointwiseTypes(*body, in);
  return types.ok() ? types->back().str() : types.status().entries()[0].text;
}

TEST(PointwiseBody, InfersTypes) {
  Type x(DType::F32, {2, 3}), row(DType::F32, {3}), h(DType::BF16, {2, 3});
  EXPECT_EQ(typesOf("mul(neg(a), b)", {row, x}), "f32[2,3]");
  EXPECT_EQ(typesOf("cast(lt(a, b), to=bf16)", {x, row}), "bf16[2,3]");
  EXPECT_EQ(typesOf("mul(cast(a, to=f32), b)", {h, x}), "f32[2,3]");
}

TEST(PointwiseBody, RefusesTypesThatDoNotFit) {
  Type x(DType::F32, {2, 3}), h(DType::BF16, {2, 3}), i(DType::I64, {3});
  EXPECT_THAT(typesOf("mul(a, b)", {x, h}), HasSubstr("[broadcast_2]"));
  EXPECT_THAT(typesOf("neg(a)", {i}), HasSubstr("a value is i64, expected floats and bools"));
  EXPECT_THAT(typesOf("cast(a, to=i32)", {x}), HasSubstr("a value is i32"));
  EXPECT_EQ(typesOf("cast(a, to=f64)", {x}), "f64 and narrower floats do not mix");
  EXPECT_THAT(typesOf("relu_grad(a, b)", {x, Type(DType::F32, {3})}), HasSubstr("[same_all_2]"));
}

/// The case's result if every step is a launch of its own, of `ref` where the table has no row.
std::optional<std::vector<uint8_t>> stepByStep(KernelTable table, const KernelCase &c,
                                               const RunOptions &o) {
  auto body = parsePointwise(c.attrs.s("body"), static_cast<int>(c.ins.size()));
  std::vector<Type> in;
  for (const Tensor &t : c.ins)
    in.emplace_back(t.dtype, t.dims);
  auto types = pointwiseTypes(*body, in);
  std::vector<Tensor> values = c.ins;
  RunResult last;
  for (size_t i = 0; i < body->steps.size(); ++i) {
    const PointwiseStep &s = body->steps[i];
    KernelCase step;
    step.name = step.op = std::string(info(s.kind).text);
    step.attrs = s.attrs;
    for (int k = 0; k < s.numArgs; ++k)
      step.ins.push_back(values[static_cast<size_t>(s.args[static_cast<size_t>(k)])]);
    step.outs = {result((*types)[i].dtype, (*types)[i].dims)};
    const DsKernel *kernel = findKernel(table, step.op.c_str(), step.ins[0].dtype);
    if (!kernel)
      kernel = findKernel(refKernels(), step.op.c_str(), step.ins[0].dtype);
    last = runKernel(*kernel, step, o);
    EXPECT_EQ(last.error, "") << c.name << ": " << step.op;
    if (!last.error.empty())
      return std::nullopt;
    Tensor value = step.outs[0];
    value.values = numbers(last.bytes[0], value.dtype);
    values.push_back(std::move(value));
  }
  return last.bytes[0];
}

void expectBitsOfSteps(KernelTable table, const KernelCase &c, const RunOptions &o = {}) {
  const DsKernel *kernel = findKernel(table, "pointwise", c.ins[0].dtype);
  ASSERT_NE(kernel, nullptr) << c.name;
  RunResult got = runKernel(*kernel, c, o);
  ASSERT_EQ(got.error, "") << c.name;
  auto want = stepByStep(table, c, o);
  ASSERT_TRUE(want) << c.name;
  EXPECT_EQ(got.bytes[0], *want) << c.name;
}

TEST(Pointwise, CpuHasTheBitsOfItsSteps) {
  int halves = 0;
  for (const KernelCase &c : casesOf("pointwise")) {
    expectBitsOfSteps(cpuKernels(), c);
    for (DType half : {DType::BF16, DType::F16})
      if (KernelCase h = c; inHalf(h, half)) {
        expectBitsOfSteps(cpuKernels(), h);
        ++halves;
      }
  }
  EXPECT_GT(halves, 100);
}

TEST(Pointwise, RefHasTheBitsOfItsSteps) {
  for (const auto &cases : {casesOf("pointwise"), wideGroupCases("")})
    for (const KernelCase &c : cases)
      expectBitsOfSteps(refKernels(), c);
}

// Row-major cases alone have launches in packs, the others elements one by one; both have enough of f32.
TEST(Pointwise, CudaHasTheBitsOfItsSteps) {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  RunOptions o;
  o.api = p->api;
  ASSERT_EQ(o.api->streamCreate(&o.stream), nullptr);
  std::vector<KernelCase> cases = deviceCases("pointwise", 2000);
  EXPECT_GT(cases.size(), 200u);
  for (const KernelCase &c : cases)
    if (isRowMajor(c))
      expectBitsOfSteps({p->kernels, p->numKernels}, c, o);
  ASSERT_EQ(o.api->streamDestroy(o.stream), nullptr);
}

} // namespace
} // namespace ds::test

#endif
