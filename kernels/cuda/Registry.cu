// SPDX-License-Identifier: Apache-2.0
//
// The plugin's one entry, with the CUDA rows of the kernel table.
#include "kernels/cuda/Device.h"
#include "kernels/cuda/Kernels.h"

#include <cstring>

namespace ds::cuda {

#ifdef DS_CUDA_EMULATED
// The emulation compares what kernels touch with what their launch says.
template <DsRunFn run> static const char *watched(const DsLaunch *l, void *state) {
  Touches t(*l);
  return run(l, state);
}
#define WATCHED(run) watched<run>
#else
#define WATCHED(run) run
#endif

static const DsKernel kKernels[] = {
#define CUDA(op, dtypes, run) {op, dtypes, nullptr, WATCHED(run), nullptr, nullptr, nullptr},
#define CUDA_WORK(op, dtypes, run) {op, dtypes, nullptr, WATCHED(run), nullptr, run##Work, nullptr},
#define CUDA_STATE(op, dtypes, run)                                                                \
  {op, dtypes, run##Prepare, WATCHED(run), run##Destroy, run##Work, run##Note},
#include "kernels/Kernels.def"
};

static const DsPlugin kPlugin = {
    DS_ABI, DS_BUILD, "cuda", kKernels, sizeof kKernels / sizeof kKernels[0], &kApi};

} // namespace ds::cuda

extern "C" __attribute__((visibility("default"))) const DsPlugin *ds_plugin_entry(uint32_t abi,
                                                                                  const char *) {
  return abi == DS_ABI ? &ds::cuda::kPlugin : nullptr;
}
