// SPDX-License-Identifier: Apache-2.0
//
// Runs one op's kernel on small tensors given as doubles. Result types come from the op's shape rule and
// results that are tied to operands share their memory, as in a plan. Every run is repeated with strided
// operands and results whose gaps hold a pattern that must survive, and with result 0 over each operand that it may overwrite.
#pragma once

#include "ir/Ops.h"
#include "ir/Type.h"
#include "kernels/Registry.h"

#include <functional>

namespace ds::optest {

using Dims = std::vector<int64_t>;

/// A logical tensor; v is row-major.
struct Tensor {
  DType dtype = DType::F64;
  Dims dims;
  std::vector<double> v;

  Tensor() = default;
  Tensor(DType t, Dims d, std::vector<double> values);
  int64_t elems() const { return static_cast<int64_t>(v.size()); }
  double at(const Dims &index) const;
};

Tensor scalar(double v);   // f64[]
Tensor flagTensor(bool v); // bool[]
/// Values rounded to dtype: uniform in [low, high), whole numbers for integers.
Tensor uniform(DType t, Dims d, uint32_t seed, double low = -2, double high = 2);
/// f(index) for every index, rounded to dtype.
Tensor tabulate(DType t, Dims d, const std::function<double(const Dims &)> &f);
/// Calls f for every index, row-major.
void forEachIndex(const Dims &d, const std::function<void(const Dims &)> &f);
/// index as an index of a tensor that broadcasts: missing axes dropped, extent-1 axes at 0.
Dims broadcastIndex(const Dims &index, const Dims &dims);

struct Call {
  OpKind op;
  Attrs attrs;
  std::vector<Tensor> ins;
  std::vector<std::vector<DsRun>> runs = {}; // of every operand, or empty
  bool stridedToo = true; // also on strided memory; optimizers and packs want contiguous buckets
  KernelTable table = refKernels();
};

struct Outcome {
  std::string error; // of the shape rule, the lookup, prepare or run
  std::vector<Tensor> outs = {};
  bool sameStrided = true; // the strided run gave the same values and left gaps alone
  bool sameInPlace = true; // and so did runs with result 0 over each operand that it may overwrite
};

Outcome run(const Call &call);
/// Result 0; fails the test on errors or a difference between layouts.
Tensor run1(OpKind op, std::vector<Tensor> ins, Attrs attrs = {});
/// The error, which must be there.
std::string errorOf(OpKind op, std::vector<Tensor> ins, Attrs attrs = {});

/// |a - b| <= tolerance * max(1, |b|) everywhere, with equal NaNs and infinities, types and dims.
void expectNear(const Tensor &a, const Tensor &b, double tolerance);
inline void expectEqual(const Tensor &a, const Tensor &b) { expectNear(a, b, 0); }

} // namespace ds::optest
