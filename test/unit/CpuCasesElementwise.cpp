// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuCases.h"

namespace ds::test {

Cases unaryCases(const std::string &op) {
  Cases cases;
  std::vector<Attrs> forms = {Attrs{}};
  if (op == "gelu")
    forms = {Attrs{{"tanh", true}}, Attrs{{"tanh", false}}};
  for (const Attrs &form : forms) {
    for (Dims d : {Dims{}, {0}, {1}, {7}, {3, 0, 5}, {70001}})
      push(cases, {"", op, form, {f32(d, wild)}, {result(DType::F32, d)}, {}, {}});
    for (Dims d : {Dims{5, 19}, {2, 3, 33}, {5, 16}})
      pushLayouts(cases, {"", op, form, {f32(d, wild)}, {result(DType::F32, d)}, {}, {}});
  }
  return cases;
}

// Same shapes, dy and x or y.
Cases gradCases(const std::string &op) {
  Cases cases;
  std::vector<Attrs> forms = {Attrs{}};
  if (op == "gelu_grad")
    forms = {Attrs{{"tanh", true}}, Attrs{{"tanh", false}}};
  auto x = op == "tanh_grad" ? +[] { return uniform(-1, 1); } : +[] { return uniform(-12, 12); };
  for (const Attrs &form : forms)
    for (Dims d : {Dims{}, {0}, {13}, {4, 21}, {40000}})
      pushLayouts(cases, {"", op, form, {f32(d), f32(d, x)}, {result(DType::F32, d)}, {}, {}});
  return cases;
}

Cases binaryCases(const std::string &op) {
  Cases cases;
  auto next = op == "div" ? +[] { return normal() + (engine() % 50 ? 5.0 : 0.0); } : wild;
  struct Shape {
    Dims a, b, out;
  };
  for (const Shape &s : {Shape{{}, {}, {}},
                         {{0}, {1}, {0}},
                         {{65537}, {65537}, {65537}},
                         {{65537}, {}, {65537}},
                         {{1}, {40003}, {40003}},
                         {{7, 19}, {19}, {7, 19}},
                         {{19}, {7, 19}, {7, 19}},
                         {{7, 19}, {7, 1}, {7, 19}},
                         {{6, 16}, {16}, {6, 16}},
                         {{6, 16}, {6, 1}, {6, 16}},
                         {{16}, {}, {16}},
                         {{3, 1, 24}, {2, 1}, {3, 2, 24}},
                         {{7, 1}, {1, 19}, {7, 19}},
                         {{2, 3, 5, 9}, {2, 1, 1, 9}, {2, 3, 5, 9}},
                         {{2, 3, 5, 9}, {3, 1, 9}, {2, 3, 5, 9}},
                         {{1, 1, 5, 9}, {2, 3, 1, 1}, {2, 3, 5, 9}},
                         {{4, 12, 33, 33}, {1, 1, 33, 33}, {4, 12, 33, 33}},
                         {{300, 257}, {257}, {300, 257}}})
    pushLayouts(
        cases, {"", op, {}, {f32(s.a, next), f32(s.b, next)}, {result(DType::F32, s.out)}, {}, {}});
  return cases;
}

Cases powCases(const std::string &) {
  Cases cases;
  for (double e : {0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 2.5, -3.0, 7.0}) {
    bool whole = e == std::floor(e);
    auto base = whole ? normal : positive;
    for (DType t : {DType::F32, DType::F64, DType::I64, DType::I32})
      if (whole || isFloat(t))
        for (Dims d : {Dims{11}, {6, 23}, {0}, {40001}})
          push(cases, {"",
                       "pow",
                       {},
                       {f32(d, base), tensor(t, {}, [=] { return e; })},
                       {result(DType::F32, d)},
                       {},
                       {}});
  }
  pushLayouts(
      cases,
      {"", "pow", {}, {f32({6, 5}, positive), f32({5})}, {result(DType::F32, {6, 5})}, {}, {}});
  push(cases, {"",
               "pow",
               {},
               {f32({64}, wild), f32({}, [] { return 0.5; })},
               {result(DType::F32, {64})},
               {},
               {}});
  pushLayouts(cases, {"",
                      "pow",
                      {},
                      {f32({6, 5}), f32({1}, [] { return 3.0; })},
                      {result(DType::F32, {6, 5})},
                      {},
                      {}});
  return cases;
}

Cases whereCases(const std::string &) {
  Cases cases;
  struct Shape {
    Dims c, a, b, out;
  };
  for (DType t : kSizes)
    for (const Shape &s : {Shape{{}, {}, {}, {}},
                           {{50021}, {50021}, {}, {50021}},
                           {{0}, {0}, {1}, {0}},
                           {{1, 1, 9, 9}, {2, 3, 9, 9}, {}, {2, 3, 9, 9}},
                           {{3, 1}, {3, 33}, {33}, {3, 33}},
                           {{3, 1}, {3, 32}, {32}, {3, 32}},
                           {{32}, {2, 32}, {2, 1}, {2, 32}},
                           {{33}, {}, {}, {33}}})
      pushLayouts(cases, {"",
                          "where",
                          {},
                          {any(DType::Bool, s.c), any(t, s.a), any(t, s.b)},
                          {result(t, s.out)},
                          {},
                          {}});
  return cases;
}

Cases castCases(const std::string &) {
  Cases cases;
  static const DType types[] = {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I64,
                                DType::I32, DType::I16, DType::I8,   DType::U64, DType::U32,
                                DType::U16, DType::U8,  DType::Bool};
  for (DType from : types)
    for (DType to : types) {
      auto next = isFloat(from) ? wild : from == DType::Bool ? coin : small;
      push(cases, {"",
                   "cast",
                   Attrs{{"to", std::string(text(to))}},
                   {tensor(from, {97}, next)},
                   {result(to, {97})},
                   {},
                   {}});
    }
  pushLayouts(cases, {"",
                      "cast",
                      Attrs{{"to", std::string("f32")}},
                      {tensor(DType::I64, {5, 7}, small)},
                      {result(DType::F32, {5, 7})},
                      {},
                      {}});
  push(cases, {"",
               "cast",
               Attrs{{"to", std::string("f32")}},
               {tensor(DType::Bool, {60000}, coin)},
               {result(DType::F32, {60000})},
               {},
               {}});
  return cases;
}

// Rows of all residues by the four words of a block, rows that pieces of a launch end in, and samples that carry.
Cases dropoutCases(const std::string &) {
  Cases cases;
  struct Form {
    Dims dims;
    int64_t rows;
    double first;
  };
  auto rng = [](double first) {
    return tensor(DType::U64, {2}, [n = 0, first]() mutable { return n++ ? first : 77.0; });
  };
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (const Form &f : {Form{{}, 0, 0},
                          {{0}, 0, 3},
                          {{7}, 7, 3},
                          {{5, 9}, 5, 4294967290.0},
                          {{2, 3, 33}, 2, 1e15},
                          {{2, 3, 33}, 0, 8},
                          {{6, 40}, 3, 5},
                          {{3, 40}, 0, 7},
                          {{3, 4099}, 3, 0},
                          {{40001}, 1, 12}}) {
      Attrs attrs{{"ratio", 0.3}, {"key", int64_t{5}}, {"rows", f.rows}};
      KernelCase c{"", "dropout", attrs, {any(t, f.dims), rng(f.first)}, {result(t, f.dims)},
                   {}, {}};
      t == DType::F32 ? pushLayouts(cases, c) : push(cases, c);
    }
  return cases;
}

} // namespace ds::test
