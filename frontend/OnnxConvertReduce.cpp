// SPDX-License-Identifier: Apache-2.0
//
// Reductions and softmax.
#include "frontend/OnnxEval.h"

#include <algorithm>

namespace ds {

Status convertReduce(Converter &c) {
  TRY(c.wantTensors(1, 2));
  const std::string &op = c.node->op();
  std::optional<std::vector<int64_t>> axes = c.node->ints("axes");
  if (!axes && c.has(1)) {
    TRY_ASSIGN(axes, c.known(1, "axes"));
  }
  EMIT(x, c.value(0));
  int64_t rank = c.rank(0);
  if (!axes || axes->empty()) {
    if (c.node->i("noop_with_empty_axes", 0))
      return c.result(x); // of every reduction, by the standard
    axes.emplace();
    for (int64_t a = 0; a < rank; ++a)
      axes->push_back(a);
  }
  TRY_ASSIGN(*axes, c.axes(*axes, rank));
  bool keep = c.node->i("keepdims", 1) != 0;
  int64_t count = 1;
  for (int64_t a : *axes)
    count *= c.dims(0)[a];
  Attrs attrs = {{"axes", *axes}, {"keepdims", keep}};
  if (op == "ReduceMax" || op == "ReduceMin") {
    if (axes->empty())
      return c.result(x);
    return c.result(c.emit(op == "ReduceMax" ? OpKind::ReduceMax : OpKind::ReduceMin, {x}, attrs));
  }
  if (op == "ReduceSum")
    return c.result(c.reduceSum(x, *axes, keep));
  if (op == "ReduceMean") {
    EMIT(sum, c.reduceSum(x, *axes, keep, ".sum"));
    if (count == 1)
      return c.result(sum);
    if (isInt(x->type.dtype)) {
      EMIT(n, c.scalar(x->type.dtype, static_cast<double>(count)));
      return c.result(c.emit(OpKind::Div, {sum, n}));
    }
    EMIT(n, c.scalar(x->type.dtype, static_cast<double>(count)));
    return c.result(c.emit(OpKind::Div, {sum, n}));
  }
  if (op == "ReduceLogSumExp") {
    // Shifted by the maximum, which cancels exactly: a constant for the gradient would do as well.
    std::vector<int64_t> all = *axes;
    if (all.empty())
      return c.result(x);
    EMIT(max, c.emit(OpKind::ReduceMax, {x}, {{"axes", all}, {"keepdims", true}}, ".max"));
    EMIT(low, c.emit(OpKind::Sub, {x, max}, {}, ".low"));
    EMIT(exp, c.emit(OpKind::Exp, {low}, {}, ".exp"));
    EMIT(sum, c.reduceSum(exp, all, true, ".sum"));
    EMIT(log, c.emit(OpKind::Log, {sum}, {}, ".log"));
    EMIT(out, c.emit(OpKind::Add, {log, max}, {}, keep ? "" : ".kept"));
    Dims dims;
    for (int64_t a = 0; a < rank; ++a)
      if (keep || !std::binary_search(all.begin(), all.end(), a))
        dims.push_back(out->type.dims[a]);
    return c.result(c.reshape(out, dims));
  }
  Value *v = x;
  if (op == "ReduceSumSquare" || op == "ReduceL2") {
    TRY_ASSIGN(v, c.emit(OpKind::Mul, {x, x}, {}, ".square"));
  } else if (op == "ReduceL1") {
    TRY_ASSIGN(v, c.emit(OpKind::Abs, {x}, {}, ".abs"));
  }
  bool more = op == "ReduceL2" || op == "ReduceLogSum";
  EMIT(sum, c.reduceSum(v, *axes, keep, more ? ".sum" : ""));
  if (op == "ReduceL2")
    return c.result(c.emit(OpKind::Sqrt, {sum}));
  if (op == "ReduceLogSum")
    return c.result(c.emit(OpKind::Log, {sum}));
  return c.result(sum);
}

// Before opset 13 the input is a matrix, split at axis (default 1), and the rows are normalised.
Status convertSoftmax(Converter &c) {
  TRY(c.wantTensors(1, 1));
  OpKind k = c.node->op() == "Softmax" ? OpKind::Softmax : OpKind::LogSoftmax;
  bool flat = c.node->opset < 13;
  int64_t rank = c.rank(0);
  EMIT(x, c.value(0));
  if (!flat) {
    TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", -1), rank));
    return c.result(c.emit(k, {x}, {{"axis", axis == rank - 1 ? -1 : axis}}));
  }
  int64_t axis = c.node->i("axis", 1);
  if (axis < -rank || axis > rank)
    return c.error("axis " + std::to_string(axis) + " is outside rank " + std::to_string(rank));
  axis += axis < 0 ? rank : 0;
  const Dims d = c.dims(0);
  if (axis == rank - 1)
    return c.result(c.emit(k, {x}));
  EMIT(rows, c.reshape(x,
                       {product(Dims(d.begin(), d.begin() + axis)),
                        product(Dims(d.begin() + axis, d.end()))},
                       ".rows"));
  EMIT(y, c.emit(k, {rows}, {}, ".soft"));
  return c.result(c.reshape(y, d));
}

} // namespace ds
