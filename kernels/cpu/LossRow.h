// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropy of one row of logits.
#pragma once

#include "kernels/cpu/Half.h"

namespace ds::cpu {

inline const char *const kBadLabel = "a label is not a class and not ignore_index";

/// n contiguous logits of f32, bf16 or f16.
struct LossRow {
  FloatPort port;
  int64_t n = 0, bytes = 0; // of the whole row

  LossRow() = default;
  LossRow(DType type, int64_t n);
  bool isClass(int64_t label) const { return label >= 0 && label < n; }
  float logit(const void *row, int64_t k) const;
  /// The logarithm of the sum of the exponentials; -infinity for no class.
  double logSumExp(const void *row) const;
  /// out = (softmax - one at the label) * scale; out may be the row.
  void gradient(const void *row, int64_t label, float lse, double scale, void *out) const;
};

/// The label of a row: i64 or i32, contiguous.
inline int64_t labelAt(const DsTensor &labels, int64_t row) {
  return is(labels, DType::I64) ? ptr<int64_t>(labels)[row] : ptr<int32_t>(labels)[row];
}

} // namespace ds::cpu
