// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuCases.h"

namespace ds::test {

namespace {

struct Sizes {
  int64_t batch, heads, groups, queries, keys, depth, width;
};

Dims dimsOf(int64_t batch, int64_t heads, int64_t rows, int64_t width, bool rowsFirst) {
  return rowsFirst ? Dims{batch, rows, heads, width} : Dims{batch, heads, rows, width};
}

KernelCase attentionCase(bool grad, const Sizes &s, bool causal, bool rowsFirst,
                         const Tensor *mask) {
  auto part = [&](int64_t heads, int64_t rows, int64_t width) {
    return dimsOf(s.batch, heads, rows, width, rowsFirst);
  };
  Dims q = part(s.heads, s.queries, s.depth), k = part(s.groups, s.keys, s.depth),
       v = part(s.groups, s.keys, s.width), o = part(s.heads, s.queries, s.width),
       lse = {s.batch, s.heads, s.queries};
  KernelCase c{"",
               grad ? "attention_grad" : "attention",
               Attrs{{"scale", 0.375}, {"causal", causal}, {"rows_first", rowsFirst}},
               {f32(q, even), f32(k, even), f32(v, even)},
               {},
               {},
               {}};
  if (grad) {
    c.ins.insert(c.ins.begin(), f32(o, even));
    c.ins.push_back(f32(o, even));
    c.ins.push_back(f32(lse, [] { return engine() % 7 ? uniform(2, 4) : -kInf; }));
    c.outs = {result(DType::F32, q), result(DType::F32, k), result(DType::F32, v)};
  } else {
    c.outs = {result(DType::F32, o), result(DType::F32, lse)};
  }
  if (mask)
    c.ins.push_back(*mask);
  return c;
}

// Rows of `lead`, K and N.
KernelCase linearCase(const std::string &op, Dims lead, int64_t inner, int64_t columns, bool trans,
                      bool tanh) {
  auto with = [&](int64_t last) {
    Dims d = lead;
    d.push_back(last);
    return d;
  };
  Dims w = trans ? Dims{columns, inner} : Dims{inner, columns};
  KernelCase c{"", op, Attrs{{"trans_b", trans}}, {f32(with(inner), even)}, {}, {}, {}};
  if (op == "linear_grad") {
    c.ins.push_back(f32(with(columns), even));
    c.outs = {result(DType::F32, w), result(DType::F32, {columns})};
    return c;
  }
  c.ins.push_back(f32(w, even));
  c.ins.push_back(op == "linear" ? f32({columns}, even) : f32(with(columns)));
  if (op == "linear_gelu_grad")
    c.attrs.set("tanh", tanh);
  c.outs = {result(DType::F32, with(columns))};
  return c;
}

} // namespace

Cases linearCases(const std::string &op) {
  Cases cases;
  struct Shape {
    Dims lead;
    int64_t inner, columns;
  };
  for (const Shape &s : {Shape{{1}, 1, 1},
                         {{1}, 5, 7},
                         {{7}, 13, 5},
                         {{2, 3}, 20, 17},
                         {{33}, 1, 40},
                         {{4}, 0, 3},
                         {{0}, 4, 5},
                         {{3}, 4, 0},
                         {{24}, 64, 16},
                         {{24}, 100, 32},
                         {{2, 2, 9}, 16, 24},
                         {{65}, 700, 130},
                         {{130}, 70, 1024}})
    for (int form = 0; form < 4; ++form)
      if (form < 2 || op == "linear_gelu_grad")
        pushLayouts(cases, linearCase(op, s.lead, s.inner, s.columns, form & 1, form & 2));
  return cases;
}

Cases rmsNormCases(const std::string &op) {
  Cases cases;
  for (auto [d, axis] : std::vector<std::pair<Dims, int64_t>>{{{1}, 0},
                                                              {{5, 19}, -1},
                                                              {{4, 3, 11}, 1},
                                                              {{200, 11}, 1},
                                                              {{300, 257}, 1},
                                                              {{2, 5000}, 1},
                                                              {{0, 6}, 1},
                                                              {{515, 64}, -1}}) {
    size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(d.size()) : axis);
    Dims head(d.begin(), d.begin() + static_cast<int64_t>(at)),
        tail(d.begin() + static_cast<int64_t>(at), d.end());
    auto scale = +[] { return uniform(0.5, 1.5); };
    if (op == "rms_norm_grad") {
      KernelCase c{"",
                   op,
                   Attrs{{"axis", axis}},
                   {f32(d), f32(d), f32(tail, scale), f32(head, scale)},
                   {result(DType::F32, d), result(DType::F32, tail)},
                   {},
                   {}};
      pushLayouts(cases, c);
      pushLayouts(cases, withAddition(c, op));
      continue;
    }
    KernelCase c{"",
                 "rms_norm",
                 Attrs{{"axis", axis}, {"eps", 0.01}},
                 {f32(d), f32(tail, scale)},
                 {result(DType::F32, d), result(DType::F32, head)},
                 {},
                 {}};
    pushLayouts(cases, op == "add_rms_norm" ? withAddition(c, op) : c);
  }
  return cases;
}

Cases attentionCases(const std::string &op) {
  Cases cases;
  bool grad = op == "attention_grad";
  for (const Sizes &s : {Sizes{1, 1, 1, 1, 1, 1, 1},
                         {2, 3, 3, 5, 7, 4, 6},
                         {1, 4, 2, 9, 9, 8, 8},
                         {1, 6, 1, 3, 17, 5, 2},
                         {2, 0, 1, 3, 4, 5, 6},
                         {0, 2, 2, 3, 4, 5, 6},
                         {1, 2, 1, 0, 4, 5, 6},
                         {1, 2, 1, 3, 0, 5, 6},
                         {1, 1, 1, 70, 66, 20, 70},
                         {1, 2, 1, 33, 35, 17, 130}})
    push(cases, attentionCase(grad, s, cases.size() % 2 == 0, cases.size() % 3 == 0, nullptr));
  // Masks: of numbers, with some and with all keys of a row hidden, and of booleans.
  for (Dims d : {Dims{9, 11}, {2, 1, 1, 11}, {2, 1, 11}, {2, 2, 9, 11}}) {
    Tensor masks[] = {f32(d), f32(d, [] { return engine() % 2 ? uniform(-3, 3) : -kInf; }),
                      tensor(DType::Bool, d, coin)};
    push(cases, attentionCase(grad, {2, 2, 1, 9, 11, 6, 5}, d.size() == 3, false,
                              &masks[cases.size() % 3]));
  }
  Tensor none = f32({5, 5}, [] { return -kInf; });
  push(cases, attentionCase(grad, {1, 2, 2, 5, 5, 4, 4}, false, false, &none));
  // Larger than what is emulated: layouts, several blocks of queries and keys.
  for (bool causal : {false, true}) {
    pushLayouts(cases, attentionCase(grad, {2, 2, 1, 50, 60, 26, 26}, causal, !causal, nullptr));
    push(cases, attentionCase(grad, {1, 2, 1, 200, 300, 33, 20}, causal, true, nullptr));
    push(cases, attentionCase(grad, {1, 2, 2, 300, 200, 16, 65}, causal, false, nullptr));
    push(cases, attentionCase(grad, {2, 3, 1, 256, 256, 64, 64}, causal, true, nullptr));
    for (int kind = 0; kind < 3; ++kind) {
      auto some = [] { return engine() % 2 ? uniform(-3, 3) : -kInf; };
      Tensor mask = kind == 0   ? f32({1, 2, 50, 60})
                    : kind == 1 ? f32({1, 2, 50, 60}, some)
                                : tensor(DType::Bool, {1, 2, 50, 60}, coin);
      pushLayouts(cases, attentionCase(grad, {1, 2, 2, 50, 60, 26, 27}, causal, true, &mask));
    }
    Tensor low = f32({150, 140}, [] { return engine() % 2 ? 0.0 : -3.4028234663852886e38; });
    push(cases, attentionCase(grad, {1, 1, 1, 150, 140, 8, 8}, causal, false, &low));
  }
  if (!grad) { // NaN stays one
    KernelCase c = attentionCase(grad, {1, 2, 2, 6, 6, 4, 4}, true, false, nullptr);
    c.ins[0].values[5] = std::nan("");
    c.ins[1].values[9] = std::nan("");
    push(cases, c);
  }
  return cases;
}

// Labels of both types, some ignored; several chunks of rows, the last of them shorter; in 16 bits with and without f32 sums.
Cases linearLossCases(const std::string &op) {
  Cases cases;
  bool grad = op == "linear_cross_entropy_grad";
  struct Shape {
    Dims rows;
    int64_t inner, classes;
    bool bias, transW;
  };
  for (const Shape &s : {Shape{{1}, 1, 1, false, false},
                         {{3, 4}, 5, 7, true, false},
                         {{3, 4}, 5, 7, false, true},
                         {{0}, 4, 6, true, true},
                         {{}, 3, 11, false, false},
                         {{4, 25}, 4, 300, false, true},
                         {{130}, 6, 33, true, false},
                         {{96}, 9, 40, true, true},
                         {{70}, 64, 130, false, true},
                         {{300}, 33, 517, true, false}}) {
    Dims x = s.rows, w = {s.transW ? s.classes : s.inner, s.transW ? s.inner : s.classes},
         bias = {s.bias ? s.classes : 0};
    x.push_back(s.inner);
    Tensor labels =
        indices(cases.size() % 2 ? DType::I32 : DType::I64, s.rows, -1, s.classes); // -1: ignored
    KernelCase c{"",
                 op,
                 Attrs{{"trans_w", s.transW}, {"ignore_index", int64_t{-1}}},
                 {f32(x, even), f32(w, even), labels, scalar(0.125)},
                 {result(DType::F32, {})},
                 {},
                 {}};
    if (grad) {
      c.ins.push_back(scalar(0.0625));
      c.outs.insert(c.outs.end(),
                    {result(DType::F32, x), result(DType::F32, w), result(DType::F32, bias)});
    }
    if (s.bias)
      c.ins.push_back(f32(bias, even));
    if (s.rows.size() > 1 && s.inner == 5)
      pushLayouts(cases, c);
    else
      push(cases, c);
  }
  return cases;
}

// Heads of the sizes that tensor cores take, several tiles of queries and of keys. For 16-bit types.
Cases headCases(const std::string &op) {
  Cases cases;
  bool grad = op == "attention_grad";
  for (const Sizes &s : {Sizes{1, 2, 1, 70, 40, 32, 32},
                         {1, 1, 1, 70, 68, 48, 64},
                         {1, 2, 2, 18, 17, 80, 96},
                         {1, 1, 1, 33, 38, 128, 120}})
    push(cases, attentionCase(grad, s, cases.size() % 4 != 1, s.heads == 2, nullptr));
  for (int64_t depth : {64, 128}) // larger than what is emulated
    push(cases, attentionCase(grad, {1, 4, 2, 200, 333, depth, depth}, depth == 64, true, nullptr));
  return cases;
}

} // namespace ds::test
