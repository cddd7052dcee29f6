// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt: the functions that we use, and a handle per device.
#pragma once

#include "kernels/cuda/Check.h"

#include <cublasLt.h>

#include <memory>

namespace ds::cuda {

#define DS_LT_FUNCTIONS(F)                                                                         \
  F(cublasLtGetVersion)                                                                            \
  F(cublasLtGetStatusName)                                                                         \
  F(cublasLtCreate)                                                                                \
  F(cublasLtDestroy)                                                                               \
  F(cublasLtMatmulDescCreate)                                                                      \
  F(cublasLtMatmulDescDestroy)                                                                     \
  F(cublasLtMatmulDescSetAttribute)                                                                \
  F(cublasLtMatrixLayoutCreate)                                                                    \
  F(cublasLtMatrixLayoutDestroy)                                                                   \
  F(cublasLtMatrixLayoutSetAttribute)                                                              \
  F(cublasLtMatmulPreferenceCreate)                                                                \
  F(cublasLtMatmulPreferenceDestroy)                                                               \
  F(cublasLtMatmulPreferenceSetAttribute)                                                          \
  F(cublasLtMatmulAlgoGetHeuristic)                                                                \
  F(cublasLtMatmulAlgoConfigGetAttribute)                                                          \
  F(cublasLtMatmul)

struct Lt {
#define DS_MEMBER(f) decltype(&::f) f;
  DS_LT_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

/// *lt: the library, or null where it is not there or not wanted (DS_CUDA_LIBRARIES). Returns a message if it is there and cannot be
/// used.
const char *findLt(const Lt **lt);
/// For DsDeviceInfo::libraries.
std::string describeLt();

/// As checked().
const char *checkedLt(const Lt &lt, cublasStatus_t s, const char *call);
#define LT_TRY(lt, call)                                                                           \
  if (const char *dsMessage = ::ds::cuda::checkedLt(lt, (lt).call, #call))                         \
  return dsMessage

/// A handle of the calling thread's device, shared by all who hold it at a time.
struct LtHandle {
  const Lt &lt;
  int device;
  cublasLtHandle_t handle = nullptr;
  const char *open();
  ~LtHandle();
};
const char *ltHandle(const Lt &lt, std::shared_ptr<LtHandle> *out);

} // namespace ds::cuda
