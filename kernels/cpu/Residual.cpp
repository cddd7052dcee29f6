// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Residual.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Residual.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

void sumOfRows(const float *a, const float *b, float *out, int64_t n) {
  map2([](VF x, VF y) HWY_ATTR { return hn::Add(x, y); }, a, b, out, n);
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(sumOfRows);

void addRow(const float *a, const float *b, float *out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(sumOfRows)(a, b, out, n);
}

DsLaunch TwoSteps::bind(const DsLaunch &l, Part &part) {
  auto choose = [&](const std::vector<int> &places, std::vector<DsTensor> &to) {
    to.clear();
    for (int k : places)
      to.push_back(k < 0 ? l.outs[~k] : l.ins[k]);
  };
  choose(part.step.ins, part.ins);
  choose(part.step.outs, part.outs);
  DsLaunch out = l;
  out.ins = part.ins.data(), out.numIns = static_cast<int32_t>(part.ins.size());
  out.outs = part.outs.data(), out.numOuts = static_cast<int32_t>(part.outs.size());
  return out;
}

size_t TwoSteps::workOf(const DsLaunch &l, const std::array<Step, 2> &steps) {
  size_t bytes = 0;
  for (const Step &s : steps) {
    Part part{s, {}, {}, nullptr};
    DsLaunch mine = bind(l, part);
    bytes = std::max(bytes, s.kernel->work ? s.kernel->work(&mine) : 0);
  }
  return bytes;
}

const char *TwoSteps::prepareSteps(const DsLaunch &l, const std::array<Step, 2> &steps) {
  for (size_t i = 0; i < 2; ++i) {
    parts[i].step = steps[i];
    DsLaunch mine = bind(l, parts[i]);
    if (const char *message = steps[i].kernel->prepare(&mine, &parts[i].state))
      return message;
  }
  return nullptr;
}

const char *TwoSteps::run(const DsLaunch &l) {
  for (Part &part : parts) {
    DsLaunch mine = bind(l, part);
    if (const char *message = part.step.kernel->run(&mine, part.state))
      return message;
  }
  return nullptr;
}

TwoSteps::~TwoSteps() {
  for (Part &part : parts)
    if (part.state)
      part.step.kernel->destroy(part.state);
}

} // namespace ds::cpu
#endif
