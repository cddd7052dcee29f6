// SPDX-License-Identifier: Apache-2.0
//
// Builds a module from a GraphSpec for a number of rows (samples in a micro-batch). Axis 0 of every float value is rows x k:
// sample s owns elements [s k, s k + k) of it.
#pragma once

#include "ir/GraphBuilder.h"
#include "test/property/Spec.h"

namespace ds::property {

using Dims = std::vector<int64_t>;

class GraphMaker {
public:
  GraphMaker(const GraphSpec &spec, int64_t rows);

  std::unique_ptr<Module> run();

  // For rows of the table, about the node at hand.
  int64_t rows;
  Choices choose{0};
  Value *op(OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs = {});
  Value *fill(double v, const Dims &dims = {}, DType t = DType::F32);
  Value *scaled(Value *v, double factor);
  Value *plus(Value *v, double offset);
  Value *squared(Value *v) { return op(OpKind::Mul, {v, v}); }
  Value *cast(Value *v, DType to);
  Value *reshape(Value *v, const Dims &dims);
  /// v with at least two axes.
  Value *matrix(Value *v);
  /// Something of y's samples that broadcasts to dims, or has exactly these dims.
  Value *like(Value *y, const Dims &dims);
  Value *sameDims(Value *y, const Dims &dims);
  /// A parameter, perhaps seen through a transpose, a slice, a sum and so on, perhaps frozen or tied.
  Value *param(const Dims &dims, double std);
  Value *plainParam(const Dims &dims, double std, bool trainable);
  /// A constant of values in [low, high).
  Value *constant(const Dims &dims, double low, double high, DType t = DType::F32);
  /// The integer input that choose picks, or null if there is none; drawn below `bound`.
  Value *ids(int64_t bound);
  /// The input that random numbers are drawn from.
  Value *rng();
  int64_t size() { return choose.of(spec.sizes); }
  int64_t axis(Value *v) { return 1 + choose.below(v->type.rank() - 1); } // of rank 2 or more

private:
  Value *node(size_t index);
  Value *bounded(Value *v);
  void head(Value *x);
  void crossEntropy(Value *x);
  void meanInGraph(Value *x);
  void addUnused();
  std::string pathOf(const NodeSpec &n) const;

  const GraphSpec &spec;
  std::unique_ptr<Module> module;
  Program *program = nullptr;
  std::unique_ptr<Builder> b;
  std::vector<Value *> values; // inputs, then nodes
  std::vector<Value *> idInputs;
  const NodeSpec *current = nullptr;
  std::string prefix; // of names
  int place = 0;      // parameters made by this node so far
};

} // namespace ds::property
