// SPDX-License-Identifier: Apache-2.0
//
// The plugin's one entry, with the CUDA rows of the kernel table.
#include "kernels/cuda/Device.h"
#include "kernels/cuda/Kernels.h"

#include <cstring>

namespace ds::cuda {

static const DsKernel kKernels[] = {
#define CUDA(op, dtypes, run) {op, dtypes, nullptr, run, nullptr, nullptr, nullptr},
#define CUDA_STATE(op, dtypes, run)                                                                \
  {op, dtypes, run##Prepare, run, run##Destroy, run##Work, run##Note},
#include "kernels/Kernels.def"
};

static const DsPlugin kPlugin = {
    DS_ABI, DS_BUILD, "cuda", kKernels, sizeof kKernels / sizeof kKernels[0], &kApi};

} // namespace ds::cuda

extern "C" __attribute__((visibility("default"))) const DsPlugin *ds_plugin_entry(uint32_t abi,
                                                                                  const char *) {
  return abi == DS_ABI ? &ds::cuda::kPlugin : nullptr;
}
