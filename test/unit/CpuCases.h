// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files that make the parity cases: random values, tensors, and a case in every layout.
#pragma once

#include "test/unit/KernelHarness.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ds::test {

using Dims = std::vector<int64_t>;
using Cases = std::vector<KernelCase>;

inline std::mt19937 engine;

inline double uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(engine()) / 4294967296.0);
}
inline double normal() { return (uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1)) * 1.5; }
inline double even() { return uniform(-1, 1); }
inline double positive() { return uniform(0.01, 9); }
inline double coin() { return engine() & 1; }
inline double small() { return static_cast<double>(engine() % 100); }

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Ordinary numbers mixed with everything that is special, over the whole range of f32.
inline double wild() {
  static const double special[] = {0.0,    -0.0,  kInf,  -kInf,   std::nan(""), 1e-45, -1e-40,
                                   3.4e38, -3e38, 88.72, -103.97, 0.5,          -0.5,  1.5,
                                   2.5,    -2.5,  1.0,   -1.0,    8388609.5,    0.875, 0.625};
  switch (engine() % 4) {
  case 0:
    return special[engine() % std::size(special)];
  case 1:
    return std::ldexp(uniform(-2, 2), static_cast<int>(engine() % 60) - 30);
  default:
    return uniform(-12, 12);
  }
}

inline Tensor result(DType dtype, Dims dims, Layout layout = Layout::Dense) {
  return {dtype, std::move(dims), {}, layout};
}
inline Tensor f32(Dims dims, double (*next)() = normal, Layout layout = Layout::Dense) {
  return tensor(DType::F32, std::move(dims), next, layout);
}
inline Tensor scalar(double v) {
  return tensor(DType::F64, {}, [=] { return v; });
}
inline Tensor indices(DType dtype, Dims dims, int64_t low, int64_t end) {
  return tensor(dtype, std::move(dims), [=] {
    return static_cast<double>(low +
                               static_cast<int64_t>(engine() % static_cast<uint64_t>(end - low)));
  });
}

inline const Layout kLayouts[] = {Layout::Dense, Layout::Padded, Layout::Transposed,
                                  Layout::Stepped};

inline std::string nameOf(const KernelCase &c) {
  std::string name = c.op + attrsText(c.attrs, {});
  static const char *const words[] = {"", "p", "t", "s"};
  auto add = [&](const Tensor &t) {
    name += " " + std::string(text(t.dtype)) + "[";
    for (size_t i = 0; i < t.dims.size(); ++i)
      name += (i ? "," : "") + std::to_string(t.dims[i]);
    name += std::string("]") + words[static_cast<int>(t.layout)];
  };
  for (const Tensor &t : c.ins)
    add(t);
  name += " ->";
  for (const Tensor &t : c.outs)
    add(t);
  return name;
}

inline void push(Cases &cases, KernelCase c) {
  c.name = nameOf(c);
  cases.push_back(std::move(c));
}

/// The case as it is, and again with each layout on operands and results (large ones: two of them).
inline void pushLayouts(Cases &cases, const KernelCase &c) {
  push(cases, c);
  int64_t largest = 0;
  for (const Tensor &t : c.ins)
    largest = std::max(largest, t.elems());
  for (Layout in : kLayouts)
    for (Layout out : {Layout::Dense, Layout::Padded, Layout::Transposed}) {
      if (largest > 10000 && (in != Layout::Transposed || out == Layout::Transposed))
        continue;
      KernelCase k = c;
      for (Tensor &t : k.ins)
        t.layout = in;
      for (Tensor &t : k.outs)
        t.layout = out;
      push(cases, std::move(k));
    }
}

inline const DType kSizes[] = {DType::F32, DType::F64, DType::BF16, DType::I64,
                               DType::I32, DType::U8,  DType::Bool};
inline double valueFor(DType t) {
  return t == DType::Bool ? coin() : isFloat(t) ? normal() : small();
}
inline Tensor any(DType t, Dims d) {
  return tensor(t, std::move(d), [=] { return valueFor(t); });
}

// One function per family; each takes the op's mnemonic.
Cases unaryCases(const std::string &op);
Cases gradCases(const std::string &op); // relu_grad and its like
Cases binaryCases(const std::string &op);
Cases powCases(const std::string &op);
Cases whereCases(const std::string &op);
Cases castCases(const std::string &op);
Cases pointwiseCases(const std::string &op);
Cases wideGroupCases(const std::string &op); // pointwise of f64 and bool alone
Cases dropoutCases(const std::string &op);
Cases moveCases(const std::string &op);
Cases concatCases(const std::string &op);
Cases gatherCases(const std::string &op);
Cases reduceCases(const std::string &op);
Cases softmaxCases(const std::string &op);
Cases rmsNormCases(const std::string &op);
Cases attentionCases(const std::string &op);
Cases linearLossCases(const std::string &op);
Cases matmulCases(const std::string &op);
Cases linearCases(const std::string &op); // linear, linear_grad, linear_gelu_grad
Cases convCases(const std::string &op);
Cases poolCases(const std::string &op);
Cases batchNormCases(const std::string &op);
KernelCase withAddition(KernelCase c, const std::string &op);
Cases layerNormCases(const std::string &op);
Cases lossCases(const std::string &op);
Cases packCases(const std::string &op);
Cases accumulateCases(const std::string &op);
Cases updateCases(const std::string &op);
Cases compareCases(const std::string &op);
Cases divisionCases(const std::string &op); // div, mod
/// Of attention in 16-bit types.
Cases headCases(const std::string &op);
Cases logicCases(const std::string &op);
Cases testCases(const std::string &op); // is_nan, is_inf
Cases trackCases(const std::string &op);
Cases makeCases(const std::string &op); // fill, iota
Cases scalarCases(const std::string &op);

} // namespace ds::test
