// SPDX-License-Identifier: Apache-2.0
//
// Matrix products.
#include "frontend/OnnxEval.h"

namespace ds {

// numpy rules: a vector on the left is a row, on the right a column, and that axis disappears again.
Status convertMatMul(Converter &c) {
  TRY(c.wantTensors(2, 2));
  EMIT(a, c.value(0));
  EMIT(b, c.value(1));
  if (a->type.dims.empty() || b->type.dims.empty())
    return c.error("inputs " + dimsText(a->type.dims) + " and " + dimsText(b->type.dims) +
                   ": expected rank 1 or more");
  bool row = a->type.rank() == 1, column = b->type.rank() == 1;
  if (row) {
    TRY_ASSIGN(a, c.reshape(a, {1, a->type.dims[0]}, ".row"));
  }
  if (column) {
    TRY_ASSIGN(b, c.reshape(b, {b->type.dims[0], 1}, ".column"));
  }
  EMIT(y, c.matmul(a, b, row || column ? ".matrix" : ""));
  Dims dims = y->type.dims;
  if (column)
    dims.pop_back();
  if (row)
    dims.erase(dims.end() - (column ? 1 : 2));
  return c.result(c.reshape(y, dims));
}

// alpha * A' B' + beta * C.
Status convertGemm(Converter &c) {
  TRY(c.wantTensors(2, 3));
  EMIT(a, c.value(0));
  EMIT(b, c.value(1));
  if (a->type.rank() != 2 || b->type.rank() != 2)
    return c.error("inputs " + dimsText(a->type.dims) + " and " + dimsText(b->type.dims) +
                   ": expected matrices");
  if (c.node->i("transA", 0)) {
    TRY_ASSIGN(a, c.transpose(a, {1, 0}, ".a"));
  }
  if (c.node->i("transB", 0)) {
    TRY_ASSIGN(b, c.transpose(b, {1, 0}, ".b"));
  }
  double alpha = c.node->f("alpha", 1), beta = c.node->f("beta", 1);
  bool add = c.has(2) && beta != 0;
  DType t = a->type.dtype;
  EMIT(y, c.matmul(a, b, add || alpha != 1 ? ".product" : ""));
  if (alpha != 1) {
    EMIT(s, c.scalar(t, alpha));
    TRY_ASSIGN(y, c.emit(OpKind::Mul, {y, s}, {}, add ? ".scaled" : ""));
  }
  if (!add)
    return c.result(y);
  OnnxVal bias = c.in[2];
  if (beta != 1) {
    EMIT(s, c.scalar(t, beta));
    EMIT(scaled, c.elementwise(OpKind::Mul, {bias, OnnxVal(s)}, {}, ".bias"));
    bias = scaled;
  }
  std::optional<Dims> both = broadcast(y->type.dims, bias.dims());
  if (!both || *both != y->type.dims)
    return c.error("C has shape " + dimsText(bias.dims()) + ", which does not broadcast to " +
                   dimsText(y->type.dims));
  return c.result(c.elementwise(OpKind::Add, {OnnxVal(y), bias}));
}

} // namespace ds
