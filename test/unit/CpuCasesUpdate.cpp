// SPDX-License-Identifier: Apache-2.0
#include "ir/Bins.h"
#include "test/unit/CpuCases.h"

namespace ds::test {

static std::vector<DsRun> someRuns(int64_t n) {
  if (n < 2000)
    return {{0, n - n / 3, 1}};
  return {{0, 700, 0}, {768, 1000, 1}, {1024, n - 57, 0}, {n - 57, n - 50, 1}};
}

Cases updateCases(const std::string &op) {
  Cases cases;
  for (int64_t n :
       {int64_t(0), int64_t(1), int64_t(200), int64_t(2048), int64_t(50000), int64_t(300000)})
    for (bool withRuns : {false, true}) {
      if (withRuns && n == 0)
        continue;
      auto runsFor = [&](size_t count) {
        return withRuns ? std::vector<std::vector<DsRun>>(count, someRuns(n))
                        : std::vector<std::vector<DsRun>>{};
      };
      if (op == "sum_squares") {
        push(cases,
             {"",
              op,
              {},
              {f32({n}),
               f32({n},
                   [] { return std::ldexp(normal(), static_cast<int>(engine() % 200) - 100); })},
              {result(DType::I64, {kBinSlots})},
              {},
              runsFor(2)});
        push(cases,
             {"", op, {}, {f32({n}, wild)}, {result(DType::I64, {kBinSlots})}, {}, runsFor(1)});
        continue;
      }
      auto two = [](double a, double b) { return Tensor{DType::F64, {2}, {a, b}, Layout::Dense}; };
      for (double skip : {0.0, 1.0}) {
        Tensor flag{DType::Bool, {}, {skip}, Layout::Dense};
        std::vector<Tensor> results(op == "sgd" ? 2 : 3, result(DType::F32, {n}));
        if (op == "sgd") {
          for (bool nesterov : {false, true})
            for (double momentum : {0.0, 0.9})
              push(cases,
                   {"",
                    op,
                    Attrs{{"momentum", momentum}, {"nesterov", nesterov}},
                    {f32({n}), f32({n}), f32({n}), two(0.1, 0.01), two(0.01, 0), scalar(0.7), flag},
                    results,
                    {1, 2},
                    runsFor(7)});
          continue;
        }
        for (bool decoupled : {false, true})
          for (bool correct : {false, true}) {
            Attrs attrs = {{"decoupled", decoupled}, {"bias_correction", correct}};
            std::vector<int> tied = {1, 2, 3};
            if (op == "adam_round") {
              attrs.set("to", std::string(correct ? "bf16" : "f16"));
              results.assign(4, result(DType::F32, {n}));
              results[0] = result(correct ? DType::BF16 : DType::F16, {n});
              tied = {-1, 1, 2, 3};
            }
            push(cases, {"",
                         op,
                         attrs,
                         {f32({n}), f32({n}), f32({n}), f32({n}, positive), two(1e-3, 2e-4),
                          two(0.01, 0), scalar(0.7), flag, scalar(0.81), scalar(0.998001)},
                         results,
                         tied,
                         runsFor(10)});
          }
      }
    }
  return cases;
}

} // namespace ds::test
