// SPDX-License-Identifier: Apache-2.0
//
// A device with a single kernel, relu on f32; everything else falls back on `ref`. Built in several broken
// variants too.
#include "kernels/Kernel.h"

#ifndef TEST_ABI
#define TEST_ABI DS_ABI
#endif
#ifndef TEST_BUILD
#define TEST_BUILD DS_BUILD
#endif

static const char *relu(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &y = l->outs[0];
  for (int64_t i = 0, n = ds::elems(x); i < n; ++i) {
    float v = static_cast<const float *>(x.data)[i];
    static_cast<float *>(y.data)[i] = v > 0 ? v : 0;
  }
  return nullptr;
}

static const DsKernel kKernels[] = {{"relu", "f32", nullptr, relu, nullptr, nullptr, nullptr}};
[[maybe_unused]] static const DsPlugin kPlugin = {TEST_ABI, TEST_BUILD, "dummy",
                                                  kKernels, 1,          nullptr};

#ifndef TEST_NO_ENTRY
extern "C" __attribute__((visibility("default"))) const DsPlugin *ds_plugin_entry(uint32_t,
                                                                                  const char *) {
#ifdef TEST_REFUSES
  return nullptr;
#else
  return &kPlugin;
#endif
}
#endif
