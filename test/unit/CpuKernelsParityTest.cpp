// SPDX-License-Identifier: Apache-2.0
//
// Every CPU row of Kernels.def against `ref`: within the op's allowance, and with the same bits on every run,
// at every alignment, for the same threads. The worst difference is printed as a share of the allowance.
#include "ir/Ops.h"
#include "test/unit/CpuKernelsCases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <optional>

#ifdef DS_HAVE_CPU_DEVICE

namespace ds::test {
namespace {

/// |x - ref| as a share of what is allowed; infinite if they differ and nothing is.
double share(double x, double ref, Allowance allowed) {
  if (x == ref || (std::isnan(x) && std::isnan(ref)))
    return 0;
  double room = allowed.atol + allowed.rtol * std::fabs(ref);
  double d = std::fabs(x - ref);
  return std::isfinite(d) && room > 0 ? d / room : std::numeric_limits<double>::infinity();
}

/// oneDNN splits sums over threads: the only ops that may depend on their number.
bool splitsSums(const std::string &op) {
  return op == "matmul" || op.starts_with("conv") || op.starts_with("linear");
}

/// Whether more threads can make a difference: smaller launches take one.
bool mayFork(const KernelCase &c) {
  int64_t largest = 0;
  bool dense = true;
  for (const auto *list : {&c.ins, &c.outs})
    for (const Tensor &t : *list) {
      largest = std::max(largest, t.elems());
      dense &= t.layout == Layout::Dense;
    }
  return splitsSums(c.op) ? dense : largest >= 10000;
}

std::vector<KernelCase> halfCases(const std::string &op, DType half) {
  std::vector<KernelCase> out;
  for (KernelCase &c : casesOf(op))
    if (KernelCase h = c; inHalf(h, half))
      out.push_back(std::move(h));
  return out;
}

class CpuKernels : public testing::TestWithParam<std::string> {};

const DsKernel *cpuKernel(const KernelCase &c) {
  return findKernel(cpuKernels(), c.op.c_str(), c.ins[0].dtype);
}

/// The largest share of what was allowed.
struct Worst {
  double share = 0;
  std::string name;
};

/// The cpu kernel's results, or none after a failure that is told.
std::optional<RunResult> matchRef(const KernelCase &c, Allowance allowed, Worst &worst) {
  const DsKernel *cpu = cpuKernel(c);
  const DsKernel *ref = findKernel(refKernels(), c.op.c_str(), c.ins[0].dtype);
  EXPECT_TRUE(cpu && ref) << c.name;
  if (!cpu || !ref)
    return std::nullopt;
  RunResult want = runKernel(*ref, c), got = runKernel(*cpu, c);
  EXPECT_EQ(want.error, "") << "ref: " << c.name;
  EXPECT_EQ(got.error, "") << c.name;
  if (!want.error.empty() || !got.error.empty())
    return std::nullopt;
  for (size_t i = 0; i < c.outs.size(); ++i) {
    std::vector<double> x = numbers(got.bytes[i], c.outs[i].dtype);
    std::vector<double> r = numbers(want.bytes[i], c.outs[i].dtype);
    for (size_t k = 0; k < x.size(); ++k) {
      double s = share(x[k], r[k], allowed);
      if (s > worst.share)
        worst = {s, c.name};
      if (s <= 1)
        continue;
      ADD_FAILURE() << c.name << ": result " << i << " element " << k << " is " << x[k]
                    << ", ref has " << r[k]
                    << (c.ins[0].values.size() == x.size()
                            ? ", operand 0 has " + std::to_string(c.ins[0].values[k])
                            : "");
      return std::nullopt;
    }
  }
  return got;
}

void expectSameInPlace(const KernelCase &c, const RunResult &want, int threads) {
  const DsKernel *ref = findKernel(refKernels(), c.op.c_str(), c.ins[0].dtype);
  for (const KernelCase &over : inPlace(c)) {
    RunResult got = runKernel(*cpuKernel(c), over, {threads, 0});
    EXPECT_EQ(got.error, "") << over.name;
    EXPECT_EQ(got.bytes, want.bytes) << over.name;
    if (threads == 1) {
      EXPECT_EQ(runKernel(*ref, over).bytes, runKernel(*ref, c).bytes) << "ref: " << over.name;
    }
  }
}

TEST_P(CpuKernels, MatchRef) {
  const std::string op = GetParam();
  std::vector<KernelCase> cases = casesOf(op);
  ASSERT_FALSE(cases.empty()) << "no cases for " << op;
  Worst worst;
  for (const KernelCase &c : cases) {
    std::optional<RunResult> got = matchRef(c, allowanceOf(op), worst);
    ASSERT_TRUE(got);
    const DsKernel *cpu = cpuKernel(c);
    EXPECT_EQ(runKernel(*cpu, c, {1, 1}).bytes, got->bytes) << c.name << ": depends on alignment";
    expectSameInPlace(c, *got, 1);
    if (!mayFork(c))
      continue;
    RunResult two = runKernel(*cpu, c, {2, 0});
    EXPECT_EQ(two.error, "") << c.name;
    expectSameInPlace(c, two, 2);
    EXPECT_EQ(runKernel(*cpu, c, {2, 3}).bytes, two.bytes) << c.name << ": two runs differ";
    if (!splitsSums(op)) {
      EXPECT_EQ(two.bytes, got->bytes) << c.name << ": depends on threads";
    }
  }
  std::printf("%-20s %5zu cases, worst %6.1f %% of the allowance  %s\n", op.c_str(), cases.size(),
              100 * worst.share, worst.name.c_str());
}

class CpuKernelsHalf : public testing::TestWithParam<std::string> {};

TEST_P(CpuKernelsHalf, MatchRef) {
  const std::string op = GetParam();
  for (DType half : {DType::BF16, DType::F16}) {
    std::vector<KernelCase> cases = halfCases(op, half);
    EXPECT_FALSE(cases.empty()) << "no cases for " << op;
    Worst worst;
    for (const KernelCase &c : cases) {
      std::optional<RunResult> got = matchRef(c, halfAllowanceOf(op, half), worst);
      ASSERT_TRUE(got);
      EXPECT_EQ(runKernel(*cpuKernel(c), c, {1, 1}).bytes, got->bytes)
          << c.name << ": depends on alignment";
      expectSameInPlace(c, *got, 1);
      if (!splitsSums(op)) {
        EXPECT_EQ(runKernel(*cpuKernel(c), c, {2, 0}).bytes, got->bytes)
            << c.name << ": depends on threads";
      }
    }
  }
}

std::vector<std::string> rows() {
  std::vector<std::string> ops;
  KernelTable table = cpuKernels();
  for (size_t i = 0; i < table.count; ++i)
    ops.push_back(table.rows[i].op);
  return ops;
}

/// Those with a row for 16-bit floats; what moves elements of any type is tested in all sizes as it is.
std::vector<std::string> halfRows() {
  std::vector<std::string> ops;
  for (const std::string &op : rows())
    if (const DsKernel *k = findKernel(cpuKernels(), op.c_str(), DType::BF16))
      if (std::string(k->dtypes) != "*")
        ops.push_back(op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Rows, CpuKernels, testing::ValuesIn(rows()),
                         [](const auto &info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(Rows, CpuKernelsHalf, testing::ValuesIn(halfRows()),
                         [](const auto &info) { return info.param; });

// Without their workspace they take other primitives, or our own kernels; these must agree as well.
class CpuKernelsDnnl : public testing::TestWithParam<const char *> {};

TEST_P(CpuKernelsDnnl, WithoutWorkspaceMatchRef) {
  const char *op = GetParam();
  for (const KernelCase &c : casesOf(op)) {
    RunResult want = runKernel(*findKernel(refKernels(), op, DType::F32), c);
    RunOptions options{2, 1, /*noWork=*/true};
    RunResult got = runKernel(*findKernel(cpuKernels(), op, DType::F32), c, options);
    ASSERT_EQ(got.error, "") << c.name;
    std::vector<double> x = numbers(got.bytes[0], DType::F32),
                        r = numbers(want.bytes[0], DType::F32);
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_LE(share(x[k], r[k], allowanceOf(op)), 1) << c.name << " element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, CpuKernelsDnnl,
                         testing::Values("matmul", "linear", "conv", "conv_grad_input",
                                         "conv_grad_weight"),
                         [](const auto &info) { return info.param; });

// What fuse-residual makes has the bits of what it replaces.
TEST(CpuKernelsFused, AdditionsOfNormsKeepTheirBits) {
  int ran = 0;
  for (const char *op : {"add_layer_norm", "add_rms_norm", "layer_norm_grad", "rms_norm_grad"}) {
    std::vector<KernelCase> cases = casesOf(op);
    for (DType half : {DType::BF16, DType::F16})
      for (KernelCase &c : halfCases(op, half))
        cases.push_back(std::move(c));
    for (const KernelCase &c : cases) {
      if (*op != 'a' && c.ins.size() < (*op == 'l' ? 6u : 5u))
        continue; // nothing is added
      for (KernelTable table : {refKernels(), cpuKernels()})
        ASSERT_EQ(runKernel(*findKernel(table, op, c.ins[0].dtype), c).bytes,
                  runApart(table, c).bytes)
            << c.name;
      ++ran;
    }
  }
  EXPECT_GT(ran, 200);
}

TEST(CpuKernelsErrors, BadIndicesAndLabels) {
  auto one = [](DType t, std::vector<int64_t> dims, double v) {
    return tensor(t, std::move(dims), [=] { return v; });
  };
  Tensor x = one(DType::F32, {4, 3}, 1);
  for (double bad : {4.0, -5.0}) {
    KernelCase g{"", "gather", Attrs{}, {x, one(DType::I64, {2}, bad)}, {{DType::F32, {2, 3}, {}}},
                 {}, {}};
    EXPECT_EQ(runKernel(*findKernel(cpuKernels(), "gather", DType::F32), g).error,
              "an index is out of range of the gathered axis");
  }
  for (double bad : {3.0, -1.0})
    for (const char *op : {"cross_entropy", "linear_cross_entropy", "linear_cross_entropy_grad"}) {
      KernelCase c{"",
                   op,
                   Attrs{},
                   {x, one(DType::I64, {4}, bad), one(DType::F64, {}, 1)},
                   {{DType::F32, {}, {}}, {DType::F32, {4}, {}}},
                   {},
                   {}};
      if (*op == 'l') {
        c.ins.insert(c.ins.begin() + 1, one(DType::F32, {3, 3}, 1));
        c.ins.push_back(one(DType::F64, {}, 1));
        c.outs = {{DType::F32, {}, {}},
                  {DType::F32, {4, 3}, {}},
                  {DType::F32, {3, 3}, {}},
                  {DType::F32, {3}, {}}};
      }
      if (std::string(op) == "linear_cross_entropy") {
        c.ins.pop_back();
        c.outs.resize(1);
      }
      EXPECT_EQ(runKernel(*findKernel(cpuKernels(), op, DType::F32), c).error,
                "a label is not a class and not ignore_index")
          << op;
    }
}

} // namespace
} // namespace ds::test

#endif
