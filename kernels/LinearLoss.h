// SPDX-License-Identifier: Apache-2.0
//
// linear_cross_entropy and its gradients, for every device: logits are made for a chunk of rows at a time and turned into their
// gradient where they lie; dx of these rows is one product, dw another that adds up over the chunks.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"
#include "kernels/MatmulShape.h"

#include <algorithm>
#include <initializer_list>

namespace ds {

enum class LossProduct { Logits, Dx, Dw };

struct LinearLossShape {
  int64_t rows = 0, inner = 0, classes = 0;
  bool transW = false, isGradient = false;
  int64_t ignore = 0;
  int biasAt = -1;   // operand; -1: none
  int64_t chunk = 0; // rows at a time; the last chunk may have fewer
  /// Of a chunk's rows, in elements: products are slow where rows begin at odd addresses.
  int64_t stride = 0;
  bool hasSums =
      false; // dw of 16 bits is added up in f32 first, since there is more than one chunk

  /// Without a bias dbias is empty.
  bool wantsBias() const { return isGradient && biasAt >= 0; }
  int64_t chunks() const { return chunk ? (rows + chunk - 1) / chunk : 0; }
  int64_t rowsOf(int64_t i) const { return i + 1 < chunks() ? chunk : rows - i * chunk; }
  /// Which of three sets of products chunk i has: the first, a later one, or the last of several.
  int kindOf(int64_t i) const { return i == 0 ? 0 : i + 1 < chunks() ? 1 : 2; }
  /// Of m rows; all operands are row-major.
  MatmulShape product(LossProduct role, int64_t m) const;
  /// f(i, role) with one chunk of each kind, for every product that there is.
  template <class F> void forProducts(const F &f) const {
    for (int64_t i : {int64_t{0}, int64_t{1}, std::max<int64_t>(2, chunks() - 1)})
      for (LossProduct role : {LossProduct::Logits, LossProduct::Dx, LossProduct::Dw})
        if (i < chunks() && (isGradient || role == LossProduct::Logits))
          f(i, role);
  }
};

/// type: of the logits.
LinearLossShape linearLossShape(const DsLaunch &l, bool isGradient, DType type);

/// Offsets in the workspace, the same on every device: a chunk of logits, the terms of its loss and their sum so far (double),
/// the sums of columns (double), of dw; behind them what products may take.
struct LinearLossWork {
  size_t chunk = 0, terms = 0, columns = 0, sums = 0, products = 0;
  LinearLossWork() = default;
  LinearLossWork(const LinearLossShape &s, DType type);
};
/// All of it in bytes, on CUDA devices.
size_t cudaLinearLossWork(const DsLaunch &l, bool isGradient);

} // namespace ds
