// SPDX-License-Identifier: Apache-2.0
//
// Cases for the ops that have a row for cuda and none for cpu: comparisons, logic, scalars.
#include "ir/Bins.h"
#include "test/unit/CpuCases.h"

namespace ds::test {

Cases compareCases(const std::string &op) {
  Cases cases;
  auto few = [] { return static_cast<double>(engine() % 3) - 1; };
  for (DType t : {DType::F32, DType::BF16, DType::I64, DType::I32, DType::Bool})
    if (t != DType::Bool || op == "eq")
      for (auto [a, b, out] :
           std::vector<std::array<Dims, 3>>{{Dims{}, Dims{}, Dims{}},
                                            {Dims{0}, Dims{0}, Dims{0}},
                                            {Dims{7, 19}, Dims{19}, Dims{7, 19}}}) {
        auto next = t == DType::Bool ? std::function<double()>(coin) : few;
        pushLayouts(cases, {"",
                            op,
                            {},
                            {tensor(t, a, next), tensor(t, b, next)},
                            {result(DType::Bool, out)},
                            {},
                            {}});
      }
  push(cases,
       {"", op, {}, {f32({500}, wild), f32({500}, wild)}, {result(DType::Bool, {500})}, {}, {}});
  return cases;
}

// Of both signs; floats with remainders of zero, too.
Cases divisionCases(const std::string &op) {
  Cases cases;
  auto next = [] { return static_cast<double>(engine() % 41) - 20; };
  auto divisor = [] { return (engine() % 2 ? 1 : -1) * static_cast<double>(engine() % 9 + 1); };
  for (DType t : {DType::F32, DType::I64, DType::I32})
    for (bool truncated : {false, true})
      for (auto [a, b, out] :
           std::vector<std::array<Dims, 3>>{{Dims{}, Dims{}, Dims{}},
                                            {Dims{0}, Dims{0}, Dims{0}},
                                            {Dims{7, 19}, Dims{19}, Dims{7, 19}}}) {
        if (op == "div" && truncated)
          continue;
        pushLayouts(cases, {"",
                            op,
                            op == "mod" ? Attrs{{"fmod", truncated}} : Attrs{},
                            {tensor(t, a, next), tensor(t, b, divisor)},
                            {result(t, out)},
                            {},
                            {}});
      }
  return cases;
}

Cases logicCases(const std::string &op) {
  Cases cases;
  std::vector<Tensor> ins = {tensor(DType::Bool, {5, 7}, coin)};
  if (op != "not")
    ins.push_back(tensor(DType::Bool, {5, 7}, coin));
  pushLayouts(cases, {"", op, {}, ins, {result(DType::Bool, {5, 7})}, {}, {}});
  return cases;
}

Cases testCases(const std::string &op) {
  Cases cases;
  for (bool positive : {false, true})
    for (bool negative : {false, true}) {
      Attrs a;
      if (op == "is_inf")
        a = Attrs{{"positive", positive}, {"negative", negative}};
      pushLayouts(cases,
                  {"", op, a, {f32({20, 15}, wild)}, {result(DType::Bool, {20, 15})}, {}, {}});
    }
  return cases;
}

Cases trackCases(const std::string &op) {
  Cases cases;
  for (bool first : {false, true})
    pushLayouts(cases, {"",
                        op,
                        Attrs{{"keep", 0.9}, {"scale", 1.5}, {"first_rank", first}},
                        {f32({5, 7}), f32({5, 7})},
                        {result(DType::F32, {5, 7})},
                        {},
                        {}});
  return cases;
}

Cases makeCases(const std::string &op) {
  Cases cases;
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32})
    for (Dims d : {Dims{}, {0}, {5, 7}, {3, 2, 4}}) {
      if (op == "fill")
        push(cases, {"", op, Attrs{{"value", 2.75}, {"dims", d}}, {}, {result(t, d)}, {}, {}});
      else if (!d.empty())
        push(
            cases,
            {"",
             op,
             Attrs{{"axis", int64_t(0)}, {"start", int64_t(-3)}, {"step", int64_t(2)}, {"dims", d}},
             {},
             {result(t, d)},
             {},
             {}});
    }
  return cases;
}

static Tensor flagOf(double v) { return {DType::Bool, {}, {v}, Layout::Dense}; }
static Tensor whole(int64_t v) { return {DType::I64, {}, {static_cast<double>(v)}, Layout::Dense}; }

Cases scalarCases(const std::string &op) {
  Cases cases;
  auto f64 = [](int n) {
    return std::vector<Tensor>(static_cast<size_t>(n), result(DType::F64, {}));
  };
  if (op == "inv_count")
    for (double v : {0.0, 3.0, 1e9})
      push(cases, {"", op, {}, {scalar(v)}, f64(1), {}, {}});
  if (op == "clip_factor")
    for (double norm : {0.0, 0.5, 1.0, 1e20})
      for (bool hasScale : {false, true}) {
        std::vector<int64_t> bins(kBinSlots, 0);
        addToBins(bins.data(), norm * norm);
        Tensor t{DType::I64, {kBinSlots}, {}, Layout::Dense};
        for (int64_t b : bins)
          t.values.push_back(static_cast<double>(b));
        std::vector<Tensor> ins = {t};
        if (hasScale)
          ins.push_back(scalar(1024));
        for (double most : {0.0, 1.0})
          push(cases, {"",
                       op,
                       Attrs{{"max_norm", most}},
                       ins,
                       {result(DType::F64, {}), result(DType::F64, {}), result(DType::Bool, {})},
                       {},
                       {}});
      }
  for (double skip : {0.0, 1.0}) {
    if (op == "advance") {
      push(cases, {"", op, Attrs{{"mul", 0.9}}, {scalar(0.81), flagOf(skip)}, f64(1), {}, {}});
      push(cases, {"",
                   op,
                   Attrs{{"add", 3.0}},
                   {whole(7), flagOf(skip)},
                   {result(DType::I64, {})},
                   {},
                   {}});
    }
    if (op == "lr_schedule")
      for (const char *kind : {"constant", "warmup", "warmup_decay", "warmup_cosine"})
        for (int64_t step : {0, 3, 10, 55, 200})
          for (bool log : {false, true})
            push(cases,
                 {"",
                  op,
                  Attrs{{"kind", std::string(kind)},
                        {"warmup", int64_t(10)},
                        {"total", int64_t(100)},
                        {"min", 0.1},
                        {"max", 0.9},
                        {"floor", 0.05},
                        {"log", log}},
                  {Tensor{DType::F64, {2}, {0.3, 0.4}, Layout::Dense}, whole(step), flagOf(skip)},
                  {result(DType::F64, {2})},
                  {},
                  {}});
    if (op == "loss_scale")
      for (int64_t since : {0, 4, 5})
        for (int64_t left : {1, 2})
          for (bool consecutive : {false, true})
            push(cases, {"",
                         op,
                         Attrs{{"window", int64_t(5)},
                               {"hysteresis", int64_t(2)},
                               {"min", 1.0},
                               {"consecutive", consecutive}},
                         {scalar(left == 1 ? 1 : 65536), whole(since), whole(left), flagOf(skip)},
                         {result(DType::F64, {}), result(DType::I64, {}), result(DType::I64, {})},
                         {},
                         {}});
  }
  return cases;
}

} // namespace ds::test
