// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuCases.h"

namespace ds::test {

static KernelCase group(const char *body, std::vector<Tensor> ins, Tensor out) {
  return {"", "pointwise", Attrs{{"body", std::string(body)}}, std::move(ins), {std::move(out)},
          {}, {}};
}

static Tensor flags(Dims d) { return tensor(DType::Bool, std::move(d), coin); }

// Every step that a body may have, chains and trees, values used twice, broadcast operands, changes of type.
Cases pointwiseCases(const std::string &) {
  Cases cases;
  Tensor out = result(DType::F32, {6, 40});
  auto x = [] { return f32({6, 40}); };
  for (const char *body :
       {"neg(abs(sub(a, b)))", "exp(neg(mul(a, a)))", "mul(mul(a, sigmoid(a)), b)",
        "t1 = sigmoid(a); mul(b, add(t1, mul(t1, sub(a, mul(t1, a)))))",
        "max(floor(a), min(ceil(b), round(c)))", "add(log(add(abs(a), sign(sign(b)))), relu(b))",
        "div(sqrt(abs(a)), reciprocal(add(abs(b), abs(b))))",
        "gelu_grad(erf(a), tanh(b), tanh=true)", "add(gelu(a), gelu(b, tanh=true))",
        "relu_grad(tanh_grad(a, tanh(b)), gelu_grad(b, a))",
        "where(or(lt(a, b), not(ge(a, c))), mul(b, c), a)",
        "cast(xor(and(le(a, b), gt(b, c)), eq(c, a)), to=f32)",
        "t1 = add(a, b); t2 = mul(a, b); t3 = sub(a, b); t4 = max(a, b); "
        "mul(mul(t1, t2), mul(mul(t3, t4), add(add(t1, t2), add(t3, t4))))"}) {
    std::string text = body;
    std::vector<Tensor> ins = {x()};
    for (const char *name : {"b", "c"})
      if (text.find(std::string(name) + ")") != text.npos ||
          text.find(std::string(name) + ",") != text.npos)
        ins.push_back(x());
    pushLayouts(cases, group(body, ins, out));
  }
  // Rotary embedding; a mask; one number for all; rows that are no multiple of a block.
  pushLayouts(cases,
              group("add(mul(a, b), mul(c, d))",
                    {f32({2, 3, 8, 16}), f32({8, 16}), f32({2, 3, 8, 16}), f32({1, 1, 8, 16})},
                    result(DType::F32, {2, 3, 8, 16})));
  pushLayouts(cases,
              group("where(b, mul(a, c), d)", {f32({5, 1000}), flags({5, 1}), f32({}), f32({1000})},
                    result(DType::F32, {5, 1000})));
  pushLayouts(cases, group("mul(a, sub(b, c))", {f32({3, 1}), f32({700}), f32({3, 700})},
                           result(DType::F32, {3, 700})));
  push(cases, group("neg(add(a, b))", {f32({0, 4}), f32({4})}, result(DType::F32, {0, 4})));
  push(cases, group("neg(add(a, b))", {f32({}), f32({})}, result(DType::F32, {})));
  push(cases, group("neg(neg(a))", {f32({70001})}, result(DType::F32, {70001})));
  // Types that change on the way; a bool result.
  for (DType t : {DType::BF16, DType::F16}) {
    std::string to = "to=" + std::string(text(t));
    pushLayouts(cases, group(("mul(cast(gelu(a, tanh=true), " + to + "), b)").c_str(),
                             {f32({6, 40}), tensor(t, {6, 40}, normal)}, result(t, {6, 40})));
    pushLayouts(cases, group("mul(cast(add(a, b), to=f32), c)",
                             {tensor(t, {6, 40}, normal), tensor(t, {40}, normal), f32({6, 1})},
                             result(DType::F32, {6, 40})));
  }
  pushLayouts(cases,
              group("not(gt(a, b))", {f32({9, 16}), f32({16})}, result(DType::Bool, {9, 16})));
  return cases;
}

// What the cpu device leaves to ref.
Cases wideGroupCases(const std::string &) {
  Cases cases;
  pushLayouts(cases,
              group("xor(not(a), b)", {flags({9, 16}), flags({16})}, result(DType::Bool, {9, 16})));
  pushLayouts(cases, group("where(a, exp(b), neg(b))",
                           {flags({4, 24}), tensor(DType::F64, {4, 24}, normal)},
                           result(DType::F64, {4, 24})));
  return cases;
}

} // namespace ds::test
