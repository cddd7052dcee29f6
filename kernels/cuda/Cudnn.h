// SPDX-License-Identifier: Apache-2.0
//
// cuDNN: the functions that we use, and a handle per device. These are its calls for one convolution each, not its graphs of
// operations: cuDNN 9 has them all (it calls them deprecated), three descriptors say everything, and the list of algorithms tells
// of each how much workspace it needs and whether its bits are the same every time.
#pragma once

#include "kernels/cuda/Check.h"

#include <string>

namespace ds::cuda {
/// A message if the library is there and cannot be used.
const char *checkCudnn();
/// For DsDeviceInfo::libraries.
std::string describeCudnn();
} // namespace ds::cuda

#if __has_include(<cudnn.h>)

#include <cudnn.h>

#include <memory>
#include <mutex>

namespace ds::cuda {

#define DS_CUDNN_FUNCTIONS(F)                                                                      \
  F(cudnnGetVersion)                                                                               \
  F(cudnnGetErrorString)                                                                           \
  F(cudnnGetLastErrorString)                                                                       \
  F(cudnnCreate)                                                                                   \
  F(cudnnDestroy)                                                                                  \
  F(cudnnSetStream)                                                                                \
  F(cudnnCreateTensorDescriptor)                                                                   \
  F(cudnnSetTensorNdDescriptorEx)                                                                  \
  F(cudnnDestroyTensorDescriptor)                                                                  \
  F(cudnnCreateFilterDescriptor)                                                                   \
  F(cudnnSetFilterNdDescriptor)                                                                    \
  F(cudnnDestroyFilterDescriptor)                                                                  \
  F(cudnnCreateConvolutionDescriptor)                                                              \
  F(cudnnSetConvolutionNdDescriptor)                                                               \
  F(cudnnSetConvolutionGroupCount)                                                                 \
  F(cudnnSetConvolutionMathType)                                                                   \
  F(cudnnDestroyConvolutionDescriptor)                                                             \
  F(cudnnGetConvolutionForwardAlgorithm_v7)                                                        \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                                 \
  F(cudnnGetConvolutionForwardWorkspaceSize)                                                       \
  F(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                  \
  F(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                \
  F(cudnnConvolutionForward)                                                                       \
  F(cudnnConvolutionBackwardData)                                                                  \
  F(cudnnConvolutionBackwardFilter)

struct Cudnn {
#define DS_MEMBER(f) decltype(&::f) f;
  DS_CUDNN_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

/// *lib: the library, or null where it is not there or not wanted (DS_CUDA_LIBRARIES). Returns a message if it is there and cannot be
/// used.
const char *findCudnn(const Cudnn **lib);

/// As checked().
const char *checkedCudnn(const Cudnn &lib, cudnnStatus_t s, const char *call);
#define CUDNN_TRY(lib, call)                                                                       \
  if (const char *dsMessage = ::ds::cuda::checkedCudnn(lib, (lib).call, #call))                    \
  return dsMessage

/// A handle of the calling thread's device, shared by all who hold it at a time.
struct CudnnHandle {
  const Cudnn &lib;
  int device;
  cudnnHandle_t handle = nullptr;
  std::mutex mutex; // its stream is that of the call to come
  CudnnHandle(const Cudnn &l, int d) : lib(l), device(d) {}
  const char *open();
  ~CudnnHandle();
};
const char *cudnnHandle(const Cudnn &lib, std::shared_ptr<CudnnHandle> *out);

} // namespace ds::cuda

#endif
