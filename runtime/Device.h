// SPDX-License-Identifier: Apache-2.0
//
// What the loader needs to know about a device: its kernels, in order of preference. The tools make one
// from the linked tables (`ref`, `cpu`) or from a plugin; the runtime itself links no kernel.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"

#include <functional>
#include <string>
#include <vector>

namespace ds {

struct DeviceKernels {
  std::string name; // "cpu", "ref"
  /// The row for an op and the dtype of its operand 0 (of result 0 for ops without operands), or null.
  std::function<const DsKernel *(const char *op, DType first)> find;
};

struct Device {
  std::string name;
  std::vector<DeviceKernels> kernels = {}; // first match wins; a later one is noted once per op
  /// Of a device with memory of its own. Its `kernels` enqueue on streams; those on host memory are `hostKernels`.
  const DsDeviceApi *api = nullptr;
  std::vector<DeviceKernels> hostKernels = {};
};

} // namespace ds
