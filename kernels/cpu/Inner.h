// SPDX-License-Identifier: Apache-2.0
//
// A kernel that another one runs on some of its tensors.
#pragma once

#include "kernels/LinearShape.h"
#include "kernels/cpu/Cpu.h"

namespace ds::cpu {

class InnerKernel {
public:
  InnerKernel() = default;
  InnerKernel(const InnerKernel &) = delete;
  InnerKernel &operator=(const InnerKernel &) = delete;
  ~InnerKernel() {
    if (state)
      kernel->destroy(state);
  }

  InnerLaunch launch; // to be described first

  /// Of the workspace, from its beginning.
  static size_t work(const KernelFns &k, InnerLaunch &launch, const DsLaunch &l) {
    return k.work ? k.work(&launch.at(l)) : 0;
  }
  const char *prepare(const KernelFns &k, const DsLaunch &l) {
    kernel = &k;
    return k.prepare(&launch.at(l), &state);
  }
  const char *run(const DsLaunch &l) { return kernel->run(&launch.at(l), state); }

private:
  const KernelFns *kernel = nullptr;
  void *state = nullptr;
};

} // namespace ds::cpu
