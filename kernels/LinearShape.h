// SPDX-License-Identifier: Apache-2.0
//
// linear, linear_grad and linear_gelu_grad in terms of the ops that kernels for them are made of: the same tensors as the launch of
// a `matmul`, of a `reduce_sum` and so on.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

#include <array>

namespace ds {

/// A launch of another op on some of a launch's tensors. Made once, in prepare; data pointers are set before each run.
class InnerLaunch {
public:
  InnerLaunch() = default;
  InnerLaunch(const InnerLaunch &) = delete; // points into itself
  InnerLaunch &operator=(const InnerLaunch &) = delete;

  /// The product in linear and linear_gelu_grad: rows times matrix.
  void product(const DsLaunch &l);
  /// In linear_grad: dw. Null, or a message: rows that no single stride separates.
  const char *weightGradient(const DsLaunch &l);
  /// dbias, likewise: the sum over rows.
  const char *biasGradient(const DsLaunch &l);
  /// The slope of linear_gelu_grad, on its result in place.
  void slope(const DsLaunch &l);
  /// The addition of linear's bias to its result in place.
  void addBias(const DsLaunch &l);

  /// With the data, workspace and stream of l, which is the launch that this was made of.
  const DsLaunch &at(const DsLaunch &l);

private:
  struct Source {
    bool isOut = false;
    int index = 0;
  };
  DsTensor &add(const DsLaunch &l, Source s, bool asOut);
  const char *addRows(const DsLaunch &l, Source s);
  void flag(const char *name, bool value);
  void finish(const DsLaunch &l);

  std::array<DsTensor, 3> tensors{}; // operands, then the result
  std::array<Source, 3> sources{};
  std::array<std::array<int64_t, 2>, 2> dims{}, strides{}; // of rows as one axis
  std::array<DsAttr, 2> attrs{};
  int64_t axes[1] = {0};
  int numIns = 0, numAttrs = 0;
  DsLaunch launch{};
};

} // namespace ds
