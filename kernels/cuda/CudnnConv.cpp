// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/CudnnConv.h"

#include "ir/DType.h"
#include "kernels/cuda/Cudnn.h"

namespace ds::cuda {

bool CudnnConv::isAligned(const DsLaunch &l) {
  constexpr uintptr_t kAligned = 16; // bytes
  for (const void *p : {l.ins[0].data, l.ins[1].data, l.outs[0].data})
    if (reinterpret_cast<uintptr_t>(p) % kAligned != 0)
      return false;
  return true;
}

} // namespace ds::cuda

#if !__has_include(<cudnn.h>)

namespace ds::cuda {
struct CudnnConv::Impl {};
CudnnConv::CudnnConv() = default;
CudnnConv::~CudnnConv() = default;
const char *CudnnConv::prepare(const DsLaunch &, ConvKind, bool *taken, std::string *) {
  *taken = false;
  return nullptr;
}
const char *CudnnConv::run(const DsLaunch &, cudaStream_t) const { return "there is no cuDNN"; }
} // namespace ds::cuda

#else

namespace ds::cuda {

namespace {

cudnnDataType_t dataType(DType t) {
  switch (t) {
  case DType::F64:
    return CUDNN_DATA_DOUBLE;
  case DType::BF16:
    return CUDNN_DATA_BFLOAT16;
  case DType::F16:
    return CUDNN_DATA_HALF;
  default:
    return CUDNN_DATA_FLOAT;
  }
}

// Each error has a thousand for its details.
bool isUnsupported(cudnnStatus_t s) { return s / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000; }

std::string dimsText(const DsTensor &t) {
  std::string s;
  for (int32_t i = 0; i < t.rank; ++i)
    s += (i ? " x " : "") + std::to_string(t.dims[i]);
  return s;
}

} // namespace

struct CudnnConv::Impl {
  const Cudnn *lib = nullptr;
  std::shared_ptr<CudnnHandle> handle;
  ConvKind kind = ConvKind::Forward;
  DType type = DType::F32;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t operation = nullptr;
  int algorithm = -1; // none
  size_t work = 0;

  ~Impl();
  const char *describe(const CudnnShape &s);
  const char *choose(size_t workBytes);
  template <typename Perf, typename List, typename Size, typename A, typename B, typename C>
  const char *chooseOf(List list, const char *listName, Size size, const char *sizeName, A a, B b,
                       C c, size_t workBytes);
  template <typename Algorithm, typename F, typename A, typename B, typename C>
  const char *compute(F f, const char *name, A a, const void *pa, B b, const void *pb, C c,
                      const DsLaunch &l);
};

CudnnConv::CudnnConv() = default;
CudnnConv::~CudnnConv() = default;

CudnnConv::Impl::~Impl() {
  for (cudnnTensorDescriptor_t t : {x, y})
    if (t)
      lib->cudnnDestroyTensorDescriptor(t);
  if (w)
    lib->cudnnDestroyFilterDescriptor(w);
  if (operation)
    lib->cudnnDestroyConvolutionDescriptor(operation);
}

const char *CudnnConv::Impl::describe(const CudnnShape &s) {
  for (auto [tensor, dims] : {std::pair(&x, &s.x), {&y, &s.y}}) {
    CUDNN_TRY(*lib, cudnnCreateTensorDescriptor(tensor));
    CUDNN_TRY(*lib, cudnnSetTensorNdDescriptorEx(*tensor, CUDNN_TENSOR_NCHW, dataType(type), s.rank,
                                                 dims->data()));
  }
  CUDNN_TRY(*lib, cudnnCreateFilterDescriptor(&w));
  CUDNN_TRY(*lib,
            cudnnSetFilterNdDescriptor(w, dataType(type), CUDNN_TENSOR_NCHW, s.rank, s.w.data()));
  CUDNN_TRY(*lib, cudnnCreateConvolutionDescriptor(&operation));
  CUDNN_TRY(*lib, cudnnSetConvolutionNdDescriptor(
                      operation, s.rank - 2, s.pad.data(), s.stride.data(), s.dilation.data(),
                      CUDNN_CROSS_CORRELATION, dataType(accumType(type))));
  CUDNN_TRY(*lib, cudnnSetConvolutionGroupCount(operation, s.groups));
  cudnnMathType_t math = type == DType::F32   ? CUDNN_FMA_MATH
                         : type == DType::F64 ? CUDNN_DEFAULT_MATH
                                              : CUDNN_TENSOR_OP_MATH;
  CUDNN_TRY(*lib, cudnnSetConvolutionMathType(operation, math));
  return nullptr;
}

// The first that serves of a list that has the fastest first. All three kinds take their descriptors as (a, b, operation, c).
template <typename Perf, typename List, typename Size, typename A, typename B, typename C>
const char *CudnnConv::Impl::chooseOf(List list, const char *listName, Size size,
                                      const char *sizeName, A a, B b, C c, size_t workBytes) {
  constexpr int kMost = 16;
  Perf found[kMost] = {};
  int count = 0;
  cudnnStatus_t s = list(handle->handle, a, b, operation, c, kMost, &count, found);
  if (isUnsupported(s))
    return nullptr;
  if (const char *message = checkedCudnn(*lib, s, listName))
    return message;
  bool exact = type == DType::F32;
  for (int i = 0; i < count; ++i) {
    const Perf &p = found[i];
    bool tensorCores = p.mathType != CUDNN_FMA_MATH && p.mathType != CUDNN_DEFAULT_MATH;
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC ||
        (exact && tensorCores))
      continue;
    CUDNN_TRY(*lib, cudnnSetConvolutionMathType(operation, exact ? CUDNN_FMA_MATH : p.mathType));
    size_t bytes = 0;
    s = size(handle->handle, a, b, operation, c, p.algo, &bytes);
    if (isUnsupported(s))
      continue;
    if (const char *message = checkedCudnn(*lib, s, sizeName))
      return message;
    if (bytes > workBytes)
      continue;
    algorithm = static_cast<int>(p.algo);
    work = bytes;
    return nullptr;
  }
  return nullptr;
}

// A function of the library, and its name.
#define NAMED(f) lib->f, #f

const char *CudnnConv::Impl::choose(size_t workBytes) {
  switch (kind) {
  case ConvKind::Forward:
    return chooseOf<cudnnConvolutionFwdAlgoPerf_t>(NAMED(cudnnGetConvolutionForwardAlgorithm_v7),
                                                   NAMED(cudnnGetConvolutionForwardWorkspaceSize),
                                                   x, w, y, workBytes);
  case ConvKind::GradInput:
    return chooseOf<cudnnConvolutionBwdDataAlgoPerf_t>(
        NAMED(cudnnGetConvolutionBackwardDataAlgorithm_v7),
        NAMED(cudnnGetConvolutionBackwardDataWorkspaceSize), w, y, x, workBytes);
  case ConvKind::GradWeight:
    return chooseOf<cudnnConvolutionBwdFilterAlgoPerf_t>(
        NAMED(cudnnGetConvolutionBackwardFilterAlgorithm_v7),
        NAMED(cudnnGetConvolutionBackwardFilterWorkspaceSize), x, y, w, workBytes);
  }
  return nullptr;
}

const char *CudnnConv::prepare(const DsLaunch &l, ConvKind kind, bool *taken, std::string *note) {
  *taken = false;
  const Cudnn *lib = nullptr;
  if (const char *message = findCudnn(&lib))
    return message;
  if (!lib)
    return nullptr;
  ConvShape s(l, kind);
  auto type = static_cast<DType>(l.outs[0].dtype);
  *note = std::string(text(type)) + " " + dimsText(s.x) + " by " + dimsText(s.w) + ": ";
  CudnnShape shape;
  if (const char *why = cudnnShape(s, shape)) {
    *note += std::string("own kernel: ") + why;
    return nullptr;
  }
  impl = std::make_unique<Impl>();
  impl->lib = lib;
  impl->kind = kind;
  impl->type = type;
  if (const char *message = cudnnHandle(*lib, &impl->handle))
    return message;
  if (const char *message = impl->describe(shape))
    return message;
  if (const char *message = impl->choose(l.workBytes))
    return message;
  *taken = impl->algorithm >= 0;
  if (*taken)
    *note += "cuDNN algorithm " + std::to_string(impl->algorithm) + ", " +
             std::to_string(impl->work) + " bytes";
  else
    *note += "own kernel: cuDNN has none whose bits repeat within " + std::to_string(l.workBytes) +
             " bytes";
  return nullptr;
}

template <typename Algorithm, typename F, typename A, typename B, typename C>
const char *CudnnConv::Impl::compute(F f, const char *name, A a, const void *pa, B b,
                                     const void *pb, C c, const DsLaunch &l) {
  const double one = 1, zero = 0;
  const float one32 = 1, zero32 = 0;
  bool isDouble = type == DType::F64;
  auto factor = [&](const double &d, const float &s) {
    return isDouble ? static_cast<const void *>(&d) : &s;
  };
  return checkedCudnn(*lib,
                      f(handle->handle, factor(one, one32), a, pa, b, pb, operation,
                        static_cast<Algorithm>(algorithm), work ? l.work : nullptr, work,
                        factor(zero, zero32), c, l.outs[0].data),
                      name);
}

const char *CudnnConv::run(const DsLaunch &l, cudaStream_t stream) const {
  const Cudnn *lib = impl->lib;
  std::lock_guard lock(impl->handle->mutex);
  CUDNN_TRY(*lib, cudnnSetStream(impl->handle->handle, stream));
  const void *first = l.ins[0].data, *second = l.ins[1].data;
  Impl &m = *impl;
  switch (m.kind) {
  case ConvKind::Forward:
    return m.compute<cudnnConvolutionFwdAlgo_t>(NAMED(cudnnConvolutionForward), m.x, first, m.w,
                                                second, m.y, l);
  case ConvKind::GradInput: // (dy, w)
    return m.compute<cudnnConvolutionBwdDataAlgo_t>(NAMED(cudnnConvolutionBackwardData), m.w,
                                                    second, m.y, first, m.x, l);
  case ConvKind::GradWeight: // (dy, x)
    return m.compute<cudnnConvolutionBwdFilterAlgo_t>(NAMED(cudnnConvolutionBackwardFilter), m.x,
                                                      second, m.y, first, m.w, l);
  }
  return nullptr;
}

#undef NAMED

} // namespace ds::cuda

#endif
