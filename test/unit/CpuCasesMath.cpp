// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuCases.h"

#include <algorithm>

namespace ds::test {

Cases reduceCases(const std::string &op) {
  Cases cases;
  for (auto [dims, axes] : std::vector<std::pair<Dims, Dims>>{{{}, {}},
                                                              {{7}, {}},
                                                              {{7}, {0}},
                                                              {{0}, {0}},
                                                              {{3, 0}, {1}},
                                                              {{0, 3}, {1}},
                                                              {{40, 19}, {1}},
                                                              {{40, 19}, {0}},
                                                              {{257, 17}, {0}},
                                                              {{300, 517}, {0}},
                                                              {{1000, 1100}, {0}},
                                                              {{300, 517}, {0, 1}},
                                                              {{2, 70001}, {1}},
                                                              {{70, 5, 33}, {1}},
                                                              {{6, 5, 4, 33}, {0, 2}},
                                                              {{6, 5, 4, 3}, {1, 3}},
                                                              {{6, 5, 4, 3}, {0, 1, 3}},
                                                              {{1, 5, 1, 3}, {0, 1}}})
    for (bool keep : {false, true}) {
      Dims out;
      for (size_t i = 0; i < dims.size(); ++i) {
        bool gone = std::count(axes.begin(), axes.end(), static_cast<int64_t>(i)) > 0;
        if (!gone || keep)
          out.push_back(gone ? 1 : dims[i]);
      }
      KernelCase c{
          "", op, Attrs{{"axes", axes}, {"keepdims", keep}}, {f32(dims)}, {result(DType::F32, out)},
          {}, {}};
      if (keep)
        pushLayouts(cases, c);
      else
        push(cases, c);
      if (op != "reduce_sum" && !c.ins[0].values.empty() && !keep) {
        c.ins[0] = f32(dims, wild);
        push(cases, c);
        std::fill(c.ins[0].values.begin(), c.ins[0].values.end(), -kInf);
        push(cases, c);
      }
    }
  return cases;
}

Cases softmaxCases(const std::string &op) {
  Cases cases;
  bool grad = op == "softmax_grad";
  for (auto [d, axis] : std::vector<std::pair<Dims, int64_t>>{{{1}, 0},
                                                              {{37}, -1},
                                                              {{5, 33}, -1},
                                                              {{5, 33}, 0},
                                                              {{3, 40, 19}, 1},
                                                              {{300, 257}, 1},
                                                              {{2, 5003}, 1},
                                                              {{4, 0}, 1},
                                                              {{0, 4}, 1}}) {
    std::vector<Tensor> ins = {f32(d)};
    if (grad)
      ins.push_back(f32(d, [] { return uniform(0, 0.1); }));
    pushLayouts(cases, {"", op, Attrs{{"axis", axis}}, ins, {result(DType::F32, d)}, {}, {}});
  }
  if (!grad) // a causal mask: -inf in part of each row, large values elsewhere
    push(cases, {"",
                 op,
                 {},
                 {f32({64, 48}, [] { return engine() % 3 ? uniform(-80, 80) : -kInf; })},
                 {result(DType::F32, {64, 48})},
                 {},
                 {}});
  return cases;
}

Cases matmulCases(const std::string &) {
  Cases cases;
  struct Shape {
    Dims a, b; // batch axes
    int64_t m, k, n;
  };
  for (const Shape &s : {Shape{{}, {}, 1, 1, 1},
                         {{}, {}, 7, 13, 5},
                         {{}, {}, 1, 129, 70},
                         {{}, {}, 70, 129, 1},
                         {{}, {}, 33, 1, 40},
                         {{}, {}, 65, 700, 130},
                         {{}, {}, 5, 0, 4},
                         {{}, {}, 0, 4, 5},
                         {{3}, {}, 9, 20, 17},
                         {{3}, {}, 1, 20, 17},
                         {{}, {3}, 9, 20, 17},
                         {{2, 3}, {2, 3}, 24, 16, 24},
                         {{2, 3}, {3}, 9, 16, 11},
                         {{2, 1}, {1, 3}, 9, 16, 11},
                         {{2, 3, 2}, {1, 3, 1}, 5, 7, 6},
                         {{0}, {}, 3, 4, 5},
                         {{2, 4}, {2, 4}, 64, 32, 64},
                         {{}, {}, 130, 70, 1024}})
    for (int form = 0; form < 4; ++form) {
      bool ta = form & 1, tb = form & 2;
      Dims batch = s.a.size() >= s.b.size() ? s.a : s.b;
      for (size_t i = 0; i < s.a.size() && i < s.b.size(); ++i) {
        int64_t &d = batch[batch.size() - 1 - i], x = s.a[s.a.size() - 1 - i],
                y = s.b[s.b.size() - 1 - i];
        d = x == 1 ? y : x;
      }
      auto with = [](Dims d, int64_t p, int64_t q) {
        d.push_back(p);
        d.push_back(q);
        return d;
      };
      pushLayouts(cases, {"",
                          "matmul",
                          Attrs{{"trans_a", ta}, {"trans_b", tb}},
                          {f32(ta ? with(s.a, s.k, s.m) : with(s.a, s.m, s.k), even),
                           f32(tb ? with(s.b, s.n, s.k) : with(s.b, s.k, s.n), even)},
                          {result(DType::F32, with(batch, s.m, s.n))},
                          {},
                          {}});
    }
  return cases;
}

// The case with what residual streams add: before a normalisation, another operand and their sum; behind a gradient, another operand.
KernelCase withAddition(KernelCase c, const std::string &op) {
  const Dims &d = c.outs[0].dims;
  if (c.op == op) { // large, since the rounded gradient must not be most of what is left
    c.ins.push_back(f32(d, [] { return uniform(20000, 30000); }));
  } else {
    c.ins.insert(c.ins.begin() + 1, f32(d));
    c.outs.insert(c.outs.begin(), result(DType::F32, d));
  }
  c.op = op;
  return c;
}

Cases layerNormCases(const std::string &op) {
  bool grad = op == "layer_norm_grad", adds = op == "add_layer_norm";
  Cases cases;
  for (auto [d, axis] : std::vector<std::pair<Dims, int64_t>>{{{1}, 0},
                                                              {{5, 19}, -1},
                                                              {{4, 3, 11}, 1},
                                                              {{200, 11}, 1},
                                                              {{300, 257}, 1},
                                                              {{2, 3000}, 1},
                                                              {{0, 6}, 1},
                                                              {{515, 64}, -1}}) {
    size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(d.size()) : axis);
    Dims head(d.begin(), d.begin() + static_cast<int64_t>(at)),
        tail(d.begin() + static_cast<int64_t>(at), d.end());
    auto x = +[] { return 3 + normal(); };
    auto scale = +[] { return uniform(0.5, 1.5); };
    if (grad) {
      KernelCase c{"",
                   op,
                   Attrs{{"axis", axis}},
                   {f32(d), f32(d, x), f32(tail, scale),
                    f32(
                        head, +[] { return uniform(2.9, 3.1); }),
                    f32(head, positive)},
                   {result(DType::F32, d), result(DType::F32, tail), result(DType::F32, tail)},
                   {},
                   {}};
      pushLayouts(cases, c);
      pushLayouts(cases, withAddition(c, op));
      continue;
    }
    std::vector<Tensor> outs = {result(DType::F32, d), result(DType::F32, head),
                                result(DType::F32, head)};
    KernelCase c{
        "", "layer_norm", Attrs{{"axis", axis}}, {f32(d, x), f32(tail, scale), f32(tail)}, outs, {},
        {}};
    pushLayouts(cases, adds ? withAddition(c, op) : c);
    c.attrs.set("eps", 0.25);
    c.ins.pop_back();
    push(cases, adds ? withAddition(c, op) : c);
  }
  return cases;
}

Cases lossCases(const std::string &op) {
  Cases cases;
  bool ce = op.rfind("cross", 0) == 0, grad = op.find("grad") != std::string::npos;
  if (!ce) {
    for (Dims d : {Dims{}, {0}, {37}, {5, 33}, {5, 901}, {300, 257}}) {
      pushLayouts(cases, {"",
                          op,
                          {},
                          {f32(d), f32(d), scalar(0.125)},
                          {result(DType::F32, grad ? d : Dims{})},
                          {},
                          {}});
    }
    return cases;
  }
  for (Dims d : {Dims{37}, {5, 33}, {4, 3, 65}, {64, 1003}, {0, 4}, {3, 9001}})
    for (DType t : {DType::I64, DType::I32}) {
      Dims head(d.begin(), d.end() - 1);
      Tensor labels = indices(t, head, 0, d.back());
      for (double &v : labels.values)
        if (engine() % 5 == 0)
          v = -100;
      Tensor lse = f32(head, [] { return uniform(4, 9); });
      std::vector<Tensor> ins = grad ? std::vector<Tensor>{f32(d), labels, lse, scalar(1.0 / 60)}
                                     : std::vector<Tensor>{f32(d), labels, scalar(1.0 / 60)};
      std::vector<Tensor> outs =
          grad ? std::vector<Tensor>{result(DType::F32, d)}
               : std::vector<Tensor>{result(DType::F32, {}), result(DType::F32, head)};
      pushLayouts(cases, {"", op, {}, ins, outs, {}, {}});
    }
  return cases;
}

} // namespace ds::test
