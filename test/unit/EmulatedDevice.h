// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/Registry.h"
#include "runtime/Device.h"

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {

/// The CUDA plugin on the emulation, which is linked into the tests.
inline Device emulatedDevice() {
  const DsPlugin *p = ds_plugin_entry(DS_ABI, DS_BUILD);
  auto table = [](KernelTable t) {
    return [t](const char *op, DType first) { return findKernel(t, op, first); };
  };
  Device d{"cuda", {{"cuda", table({p->kernels, p->numKernels})}}};
  d.api = p->api;
  d.hostKernels = {{"ref", table(refKernels())}};
  return d;
}

} // namespace ds::test
