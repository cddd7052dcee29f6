// SPDX-License-Identifier: Apache-2.0
//
// The stated error of the vector math (kernels/cpu/Math-inl.h), in units in the last place of the true value,
// over floats of every size: a dense sweep with a step that is prime to the mantissa.
#include "test/unit/KernelHarness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>

#ifdef DS_HAVE_CPU_DEVICE

namespace ds::test {
namespace {

struct Claim {
  const char *op;
  double (*truth)(double);
  double ulps;
  float largest; // |x| up to here
};

class CpuMath : public testing::TestWithParam<Claim> {};

TEST_P(CpuMath, ErrorIsWithinTheClaim) {
  const Claim claim = GetParam();
  KernelCase c{claim.op, claim.op, {}, {Tensor{}}, {Tensor{}}, {}, {}};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 21001) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::fabs(x) <= claim.largest)
      c.ins[0].values.push_back(static_cast<double>(x));
  }
  c.ins[0].dims = c.outs[0].dims = {static_cast<int64_t>(c.ins[0].values.size())};
  RunResult r = runKernel(*findKernel(cpuKernels(), claim.op, DType::F32), c);
  ASSERT_EQ(r.error, "");
  std::vector<double> got = numbers(r.bytes[0], DType::F32);
  double worst = 0, where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double x = c.ins[0].values[i], want = claim.truth(x);
    float nearest = static_cast<float>(want);
    if (!std::isfinite(nearest)) {
      ASSERT_TRUE(got[i] == nearest || (std::isnan(nearest) && std::isnan(got[i]))) << x;
      continue;
    }
    int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
    double error = std::fabs(got[i] - want) / std::ldexp(1.0, exponent - 23);
    if (!(error <= worst)) {
      worst = error;
      where = x;
    }
  }
  std::printf("%-8s %zu values, at most %.3f ulp, at %.9g\n", claim.op, got.size(), worst, where);
  EXPECT_LE(worst, claim.ulps) << "at " << where;
}

INSTANTIATE_TEST_SUITE_P(
    Claims, CpuMath,
    testing::Values(Claim{"exp", [](double x) { return std::exp(x); }, 1, 3.4e38f},
                    Claim{"log", [](double x) { return std::log(x); }, 1, 3.4e38f},
                    Claim{"tanh", [](double x) { return std::tanh(x); }, 2, 3.4e38f},
                    Claim{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2, 3.4e38f},
                    Claim{"erf", [](double x) { return std::erf(x); }, 2, 3.4e38f}),
    [](const auto &info) { return std::string(info.param.op); });

} // namespace
} // namespace ds::test

#endif
