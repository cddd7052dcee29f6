// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CudaParity.h"

#include "test/unit/CpuCases.h"

#include <algorithm>
#include <cmath>

namespace ds::test {

bool isHalf(DType t) { return t == DType::BF16 || t == DType::F16; }

bool hasHalfKernel(const std::string &op) { return op == "attention" || op == "attention_grad"; }

bool isRowMajor(const KernelCase &c) {
  for (const auto *list : {&c.ins, &c.outs})
    for (const Tensor &t : *list)
      if (t.layout != Layout::Dense)
        return false;
  return true;
}

static bool isSmall(const KernelCase &c, int64_t largest) {
  for (const auto *list : {&c.ins, &c.outs})
    for (const Tensor &t : *list)
      if (t.elems() > largest)
        return false;
  return true;
}

std::vector<KernelCase> deviceCases(const std::string &op, int64_t largest) {
  std::vector<KernelCase> out;
  std::vector<KernelCase> cases = casesOf(op);
  // What the cpu device leaves to ref: divisions of integers, groups of f64 and bool.
  Cases more = op == "div" ? divisionCases(op) : op == "pointwise" ? wideGroupCases(op) : Cases();
  cases.insert(cases.end(), more.begin(), more.end());
  for (const KernelCase &c : cases) {
    if (!isSmall(c, largest))
      continue;
    out.push_back(c);
    for (DType half : {DType::BF16, DType::F16})
      if (KernelCase h = c; isRowMajor(c) && inHalf(h, half))
        out.push_back(std::move(h));
  }
  if (hasHalfKernel(op))
    for (const KernelCase &c : headCases(op))
      for (DType half : {DType::BF16, DType::F16})
        if (KernelCase h = c; isSmall(c, largest) && inHalf(h, half, largest))
          out.push_back(std::move(h));
  return out;
}

const DsKernel *kernelOf(KernelTable table, const KernelCase &c) {
  return findKernel(table, c.op.c_str(), (c.ins.empty() ? c.outs : c.ins)[0].dtype);
}

Allowance deviceAllowance(const KernelCase &c) {
  DType t = c.ins.empty() ? DType::F32 : c.ins[0].dtype;
  Allowance a = t == DType::F32 ? allowanceOf(c.op) : halfAllowanceOf(c.op, t);
  a.atol *= 8;
  a.rtol *= 8;
  if (isHalf(t) && hasHalfKernel(c.op)) // tensor cores take probabilities and slopes in 16 bits
    a.atol += (c.op == "attention" ? 1 : 8) * (t == DType::BF16 ? 0x1p-8 : 0x1p-11);
  for (const char *one :
       {"sqrt", "reciprocal", "div", "layer_norm", "add_layer_norm", "sin", "cos", "avg_pool"})
    if (c.op == one)
      a.rtol = std::max(a.rtol, 3e-7 * (t == DType::F32 ? 1 : 1e5));
  return a;
}

std::string difference(const KernelCase &c, const RunResult &want, const RunResult &got,
                       Allowance a) {
  if (want.error != got.error)
    return "ref says '" + want.error + "', the device '" + got.error + "'";
  for (size_t i = 0; i < c.outs.size() && want.error.empty(); ++i) {
    std::vector<double> x = numbers(got.bytes[i], c.outs[i].dtype),
                        r = numbers(want.bytes[i], c.outs[i].dtype);
    for (size_t k = 0; k < x.size(); ++k) {
      bool same = x[k] == r[k] || (std::isnan(x[k]) && std::isnan(r[k]));
      if (!same && !(std::fabs(x[k] - r[k]) <= a.atol + a.rtol * std::fabs(r[k])))
        return "result " + std::to_string(i) + " element " + std::to_string(k) + " is " +
               std::to_string(x[k]) + ", ref has " + std::to_string(r[k]);
    }
  }
  return "";
}

ParityResult compareWithRef(KernelTable device, const KernelCase &c, const RunOptions &o) {
  const DsKernel *kernel = kernelOf(device, c), *ref = kernelOf(refKernels(), c);
  if (!kernel)
    return {};
  if (!ref)
    return {true, "ref has no row", {}};
  ParityResult p{true, "", runKernel(*kernel, c, o)};
  if (!isRowMajor(c) && p.got.error.ends_with(" is not row-major"))
    return {};
  p.difference = difference(c, runKernel(*ref, c), p.got, deviceAllowance(c));
  for (const KernelCase &over : inPlace(c))
    if (p.difference.empty() && runKernel(*kernel, over, o).bytes != p.got.bytes)
      p.difference = over.name + ": other bits than with a result of its own";
  return p;
}

} // namespace ds::test
