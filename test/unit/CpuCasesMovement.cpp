// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuCases.h"

namespace ds::test {

static void pushMove(Cases &cases, const std::string &op, const Attrs &attrs, Dims in, Dims out) {
  for (DType t : kSizes)
    if (op != "pad" || (t != DType::BF16 && t != DType::U8))
      push(cases, {"", op, attrs, {any(t, in)}, {result(t, out)}, {}, {}});
  pushLayouts(cases, {"", op, attrs, {any(DType::F32, in)}, {result(DType::F32, out)}, {}, {}});
}

Cases moveCases(const std::string &op) {
  Cases cases;
  if (op == "copy")
    for (Dims d : {Dims{}, {0}, {5, 17}, {3, 1, 40, 3}, {200, 301}})
      pushMove(cases, op, {}, d, d);
  if (op == "transpose")
    for (auto [in, perm] : std::vector<std::pair<Dims, Dims>>{{{}, {}},
                                                              {{5}, {0}},
                                                              {{33, 50}, {1, 0}},
                                                              {{300, 217}, {1, 0}},
                                                              {{2, 5, 3, 16}, {0, 2, 1, 3}},
                                                              {{2, 5, 3, 16}, {0, 1, 3, 2}},
                                                              {{2, 17, 3, 35}, {0, 2, 3, 1}},
                                                              {{2, 17, 3, 35}, {3, 2, 1, 0}},
                                                              {{4, 0, 3}, {2, 0, 1}},
                                                              {{1, 6, 1, 7}, {3, 0, 2, 1}}}) {
      Dims out;
      for (int64_t p : perm)
        out.push_back(in[p]);
      pushMove(cases, op, Attrs{{"perm", perm}}, in, out);
    }
  if (op == "broadcast")
    for (auto [in, out] : std::vector<std::pair<Dims, Dims>>{{{}, {3, 5}},
                                                             {{5}, {4, 5}},
                                                             {{4, 1}, {4, 700}},
                                                             {{3, 1, 5}, {2, 3, 4, 5}},
                                                             {{1}, {0}}})
      pushMove(cases, op, Attrs{{"dims", out}}, in, out);
  if (op == "slice") {
    pushMove(cases, op, Attrs{{"starts", Dims{2}}, {"limits", Dims{9}}, {"strides", Dims{3}}}, {10},
             {3});
    pushMove(
        cases, op,
        Attrs{{"starts", Dims{1, 0, 5}}, {"limits", Dims{3, 7, 37}}, {"strides", Dims{1, 2, 1}}},
        {4, 7, 40}, {2, 4, 32});
    pushMove(cases, op,
             Attrs{{"starts", Dims{4, 2}}, {"limits", Dims{4, 5}}, {"strides", Dims{1, 1}}}, {4, 7},
             {0, 3});
  }
  if (op == "reverse") {
    pushMove(cases, op, Attrs{{"axes", Dims{0}}}, {9}, {9});
    pushMove(cases, op, Attrs{{"axes", Dims{0, 2}}}, {3, 4, 5}, {3, 4, 5});
    pushMove(cases, op, Attrs{{"axes", Dims{1}}}, {3, 0}, {3, 0});
  }
  if (op == "trilu")
    for (bool upper : {false, true})
      for (int64_t k : {int64_t(0), int64_t(2), int64_t(-3), int64_t(100), int64_t(-100)}) {
        Attrs a{{"upper", upper}, {"k", k}};
        pushMove(cases, op, a, {7, 7}, {7, 7});
        pushMove(cases, op, a, {2, 5, 9}, {2, 5, 9});
        pushMove(cases, op, a, {3, 0}, {3, 0});
      }
  if (op == "pad")
    for (double v : {0.0, 1.0}) {
      auto pad = [&](Dims in, Dims low, Dims high, Dims inside, Dims out) {
        pushMove(cases, op, Attrs{{"low", low}, {"high", high}, {"interior", inside}, {"value", v}},
                 in, out);
      };
      pad({5}, {2}, {1}, {0}, {8});
      pad({5}, {-1}, {-2}, {0}, {2});
      pad({3, 4}, {1, 0}, {0, 2}, {2, 1}, {8, 9});
      pad({3, 4}, {-2, -1}, {1, -3}, {1, 2}, {4, 6});
      pad({0, 4}, {2, 0}, {1, 0}, {0, 0}, {3, 4});
      pad({4}, {-6}, {3}, {0}, {1});
      pad({4}, {3}, {-6}, {0}, {1});
    }
  return cases;
}

Cases concatCases(const std::string &) {
  Cases cases;
  for (DType t : kSizes)
    for (auto [axis, parts] :
         std::vector<std::pair<int64_t, std::vector<Dims>>>{{0, {{3}, {0}, {5}}},
                                                            {1, {{2, 3, 5}, {2, 4, 5}}},
                                                            {-1, {{2, 3}, {2, 40}, {2, 1}}},
                                                            {0, {{4, 3}}}}) {
      KernelCase c{"", "concat", Attrs{{"axis", axis}}, {}, {}, {}, {}};
      Dims out = parts[0];
      size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(out.size()) : axis);
      out[at] = 0;
      for (const Dims &d : parts) {
        c.ins.push_back(any(t, d));
        out[at] += d[at];
      }
      c.outs = {result(t, out)};
      pushLayouts(cases, c);
    }
  return cases;
}

Cases gatherCases(const std::string &op) {
  bool grad = op == "gather_grad";
  Cases cases;
  struct Shape {
    Dims x;
    int64_t axis;
    Dims index;
  };
  for (const Shape &s : {Shape{{11, 6}, 0, {4, 5}},
                         {{50, 70}, 0, {700}},
                         {{40, 4}, 0, {520}},
                         {{2, 1032}, 0, {4}},
                         {{3, 8, 5}, 1, {2, 3}},
                         {{3, 8}, -1, {9}},
                         {{9}, 0, {}},
                         {{9, 4}, 0, {0}},
                         {{700, 129}, 0, {301}}}) {
    size_t axis =
        static_cast<size_t>(s.axis < 0 ? s.axis + static_cast<int64_t>(s.x.size()) : s.axis);
    Dims block(s.x.begin(), s.x.begin() + static_cast<int64_t>(axis));
    block.insert(block.end(), s.index.begin(), s.index.end());
    block.insert(block.end(), s.x.begin() + static_cast<int64_t>(axis) + 1, s.x.end());
    for (DType it : {DType::I64, DType::I32}) {
      Tensor index = indices(it, s.index, -s.x[axis], s.x[axis]);
      if (grad) {
        pushLayouts(cases, {"",
                            "gather_grad",
                            Attrs{{"axis", s.axis}, {"dims", s.x}},
                            {f32(block), index},
                            {result(DType::F32, s.x)},
                            {},
                            {}});
        continue;
      }
      for (DType t : kSizes)
        push(cases, {"",
                     "gather",
                     Attrs{{"axis", s.axis}},
                     {any(t, s.x), index},
                     {result(t, block)},
                     {},
                     {}});
      pushLayouts(cases, {"",
                          "gather",
                          Attrs{{"axis", s.axis}},
                          {f32(s.x), index},
                          {result(DType::F32, block)},
                          {},
                          {}});
    }
  }
  return cases;
}

Cases packCases(const std::string &) {
  Cases cases;
  for (DType t : kSizes) {
    KernelCase c{"",
                 "pack",
                 Attrs{{"at", Dims{0, 128, 300}}, {"elems", int64_t(512)}},
                 {any(t, {9, 7}), any(t, {128}), any(t, {2, 2})},
                 {result(t, {512})},
                 {},
                 {}};
    for (Layout in : kLayouts) {
      for (Tensor &x : c.ins)
        x.layout = in;
      push(cases, c);
    }
  }
  return cases;
}

Cases accumulateCases(const std::string &) {
  Cases cases;
  for (Dims d : {Dims{}, {0}, {129}, {70000}, {5, 9}}) {
    pushLayouts(
        cases,
        {"", "accumulate", Attrs{{"first", true}}, {f32(d)}, {result(DType::F32, d)}, {}, {}});
    for (Layout v : kLayouts)
      push(cases,
           {"", "accumulate", {}, {f32(d), f32(d, normal, v)}, {result(DType::F32, d)}, {0}, {}});
  }
  return cases;
}

} // namespace ds::test
