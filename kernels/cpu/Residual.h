// SPDX-License-Identifier: Apache-2.0
//
// Additions that come before a normalisation or behind its gradient, with the bits of two kernels.
#pragma once

#include "kernels/cpu/Half.h"

#include <array>
#include <vector>

namespace ds::cpu {

/// out = a + b; out may be one of them.
void addRow(const float *a, const float *b, float *out, int64_t n);

/// A kernel's launch by operands k and results ~k of another launch.
struct Step {
  const KernelFns *kernel;
  std::vector<int> ins, outs;
};

/// Two kernels one after the other: for 16-bit operands that no fused kernel takes, since the sum in between is rounded.
class TwoSteps {
public:
  TwoSteps() = default;
  TwoSteps(const TwoSteps &) = delete;
  TwoSteps &operator=(const TwoSteps &) = delete;
  ~TwoSteps();
  static size_t workOf(const DsLaunch &l, const std::array<Step, 2> &steps);
  const char *prepareSteps(const DsLaunch &l, const std::array<Step, 2> &steps);
  const char *run(const DsLaunch &l);

private:
  struct Part {
    Step step;
    std::vector<DsTensor> ins, outs;
    void *state = nullptr;
  };
  static DsLaunch bind(const DsLaunch &l, Part &part);
  Part parts[2];
};

/// stepsOf: a function of the launch.
template <std::array<Step, 2> (*stepsOf)(const DsLaunch &), int kFloat>
class HalfSteps : public TwoSteps {
public:
  static bool takes(const DsLaunch &l) { return isHalf(l.ins[kFloat]); }
  static size_t work(const DsLaunch &l) { return workOf(l, stepsOf(l)); }
  const char *prepare(const DsLaunch &l) { return prepareSteps(l, stepsOf(l)); }
};

} // namespace ds::cpu
