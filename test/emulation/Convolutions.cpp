// SPDX-License-Identifier: Apache-2.0
//
// The emulated cuDNN. Its algorithms add in different orders, and the first of its lists in an order that is never the same, as those
// do of which it says so; some need a workspace, which their sums pass through. Products of floats lose bits as in TF32 unless
// the plain instructions are asked for. What the library does not take is refused as it does: shapes that disagree, memory out
// of bounds or not aligned, a workspace too small.
#include "kernels/Element.h"
#include "test/emulation/Machine.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>

using namespace ds::emulated;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims;
};
struct cudnnFilterStruct : cudnnTensorStruct {};
struct cudnnConvolutionStruct {
  std::vector<int> pad, stride, dilation;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};

namespace {

enum class Kind { Forward, Data, Filter };
using Description = cudnnTensorStruct;

thread_local std::string lastError;

cudnnStatus_t wrong(cudnnStatus_t s, const std::string &what) {
  lastError = what;
  return s;
}
cudnnStatus_t begin(const char *name) {
  return enter(name) == cudaSuccess ? CUDNN_STATUS_SUCCESS : wrong(CUDNN_STATUS_INTERNAL_ERROR, "");
}

/// One convolution: which, how, and where its operands lie.
struct Task {
  Kind kind;
  Description x, w, y;
  cudnnConvolutionStruct c;
  int parts = 1;
  int turn = 0; // where sums begin
  const void *px = nullptr, *pw = nullptr, *py = nullptr;
  void *work = nullptr;

  const Description &result() const {
    return kind == Kind::Forward ? y : kind == Kind::Data ? x : w;
  }
  void *out() const {
    return const_cast<void *>(kind == Kind::Forward ? py : kind == Kind::Data ? px : pw);
  }
};

int64_t elemsOf(const Description &t) {
  int64_t n = 1;
  for (int d : t.dims)
    n *= d;
  return n;
}
size_t bytesOf(const Description &t) {
  int64_t size = t.type == CUDNN_DATA_DOUBLE ? 8 : t.type == CUDNN_DATA_FLOAT ? 4 : 2;
  return static_cast<size_t>(elemsOf(t) * size);
}

cudnnStatus_t check(const Task &t) {
  size_t rank = t.x.dims.size();
  if (rank < 4 || rank > 5 || t.w.dims.size() != rank || t.y.dims.size() != rank ||
      t.c.pad.size() + 2 != rank)
    return wrong(CUDNN_STATUS_NOT_SUPPORTED, "rank");
  bool doubles = t.x.type == CUDNN_DATA_DOUBLE;
  if (t.w.type != t.x.type || t.y.type != t.x.type ||
      t.c.compute != (doubles ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return wrong(CUDNN_STATUS_BAD_PARAM, "types");
  const auto &x = t.x.dims, &w = t.w.dims, &y = t.y.dims;
  bool fits = x[0] == y[0] && w[0] == y[1] && w[1] * t.c.groups == x[1] && w[0] % t.c.groups == 0;
  for (size_t i = 0; i + 2 < rank; ++i) {
    int room = x[i + 2] + 2 * t.c.pad[i] - ((w[i + 2] - 1) * t.c.dilation[i] + 1);
    fits &= room >= 0 && y[i + 2] == room / t.c.stride[i] + 1;
  }
  return fits ? CUDNN_STATUS_SUCCESS
              : wrong(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the shapes do not fit together");
}

/// What the library has for a kind, the fastest first.
struct Algorithm {
  Kind kind;
  int number;
  bool repeats; // its bits are the same every time
  bool works;   // needs a workspace
  bool small;   // only for windows of 3 x 3 that move by 1
};
constexpr Algorithm kAlgorithms[] = {
    {Kind::Forward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, true, true, true},
    {Kind::Forward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, true, false},
    {Kind::Forward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, false, false},
    {Kind::Data, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, false, false, false},
    {Kind::Data, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, true, true, true},
    {Kind::Data, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, false, false},
    {Kind::Filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false, false, false},
    {Kind::Filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, true, false},
    {Kind::Filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, true, false},
};

bool takes(const Algorithm &a, const Task &t) {
  if (!a.small)
    return true;
  bool fits = t.x.dims.size() == 4 && t.x.type != CUDNN_DATA_DOUBLE;
  for (size_t i = 0; i < t.c.stride.size(); ++i)
    fits &= t.w.dims[i + 2] == 3 && t.c.stride[i] == 1 && t.c.dilation[i] == 1;
  return fits;
}
size_t workOf(const Algorithm &a, const Task &t) {
  size_t wide = t.x.type == CUDNN_DATA_DOUBLE ? 8 : 4;
  return a.works ? 2 * wide * static_cast<size_t>(elemsOf(t.result())) : 0;
}

// -- what it computes -------------------------------------------------------------------------------

/// A channel's plane, or a window: its three extents, of which the first may be 1.
struct Extents {
  int64_t n[3];
  int64_t count() const { return n[0] * n[1] * n[2]; }
};
Extents extentsOf(const Description &t) {
  Extents e{{1, 1, 1}};
  for (size_t i = 2; i < t.dims.size(); ++i)
    e.n[i + 3 - t.dims.size()] = t.dims[i];
  return e;
}

using Place = int64_t[3];
// f(place, its number)
template <typename F> void forPlaces(const Extents &e, F f) {
  Place p;
  int64_t at = 0;
  for (p[0] = 0; p[0] < e.n[0]; ++p[0])
    for (p[1] = 0; p[1] < e.n[1]; ++p[1])
      for (p[2] = 0; p[2] < e.n[2]; ++p[2])
        f(p, at++);
}

int64_t entry(const std::vector<int> &list, size_t axis, int otherwise) {
  size_t lacks = 3 - list.size();
  return axis < lacks ? otherwise : list[axis - lacks];
}

// Adds all products to the sums, which are as many as the parts; batch by batch unless the turn is another.
template <typename T, typename V> void products(const Task &t, std::vector<V> *parts) {
  const Extents in = extentsOf(t.x), tap = extentsOf(t.w), out = extentsOf(t.y);
  int64_t channels = t.x.dims[1], filters = t.y.dims[1], inner = t.w.dims[1];
  auto *x = static_cast<const T *>(t.px), *w = static_cast<const T *>(t.pw),
       *y = static_cast<const T *>(t.py);
  bool rounds = std::is_same_v<T, float> && t.c.math != CUDNN_FMA_MATH;
  auto load = [=](const T &v) {
    V value = static_cast<V>(ds::elem::load(v));
    return rounds ? static_cast<V>(std::bit_cast<float>(
                        std::bit_cast<uint32_t>(static_cast<float>(value)) & ~0x1fffu))
                  : value;
  };
  int64_t batch = t.x.dims[0];
  for (int64_t step = 0; step < batch * filters * inner; ++step) {
    int64_t at = (step + t.turn) % (batch * filters * inner);
    int64_t c = at % inner, m = at / inner % filters, n = at / inner / filters;
    int64_t from = m / (filters / t.c.groups) * inner + c;
    const int64_t xAt = (n * channels + from) * in.count(), yAt = (n * filters + m) * out.count(),
                  wAt = (m * inner + c) * tap.count();
    V *sums = parts[(t.kind == Kind::Filter ? n : t.kind == Kind::Data ? m : c) % t.parts].data();
    forPlaces(tap, [&](const Place &k, int64_t kAt) {
      // The last axis of windows is a loop of its own: it is all that takes time.
      int64_t base[3];
      for (size_t a = 0; a < 3; ++a)
        base[a] = k[a] * entry(t.c.dilation, a, 1) - entry(t.c.pad, a, 0);
      forPlaces({out.n[0], out.n[1], 1}, [&](const Place &o, int64_t row) {
        int64_t i0 = o[0] * entry(t.c.stride, 0, 1) + base[0],
                i1 = o[1] * entry(t.c.stride, 1, 1) + base[1], step2 = entry(t.c.stride, 2, 1);
        if (i0 < 0 || i0 >= in.n[0] || i1 < 0 || i1 >= in.n[1])
          return;
        int64_t xRow = xAt + (i0 * in.n[1] + i1) * in.n[2], yRow = yAt + row * out.n[2];
        for (int64_t o2 = 0; o2 < out.n[2]; ++o2) {
          int64_t i2 = o2 * step2 + base[2];
          if (i2 < 0 || i2 >= in.n[2])
            continue;
          if (t.kind == Kind::Forward)
            sums[yRow + o2] += load(x[xRow + i2]) * load(w[wAt + kAt]);
          else if (t.kind == Kind::Data)
            sums[xRow + i2] += load(y[yRow + o2]) * load(w[wAt + kAt]);
          else
            sums[wAt + kAt] += load(y[yRow + o2]) * load(x[xRow + i2]);
        }
      });
    });
  }
}

template <typename T, typename V> void execute(const Task &t) {
  auto count = static_cast<size_t>(elemsOf(t.result()));
  std::vector<V> parts[2];
  for (int p = 0; p < t.parts; ++p)
    parts[p].resize(count);
  products<T, V>(t, parts);
  auto *out = static_cast<T *>(t.out());
  if (t.parts == 1) {
    for (size_t i = 0; i < count; ++i)
      out[i] = ds::elem::store<T>(parts[0][i]);
    return;
  }
  auto *work = static_cast<V *>(t.work);
  for (size_t p = 0; p < 2; ++p)
    std::copy(parts[p].begin(), parts[p].end(), work + p * count);
  for (size_t i = 0; i < count; ++i)
    out[i] = ds::elem::store<T>(work[i] + work[count + i]);
}

std::string execute(const Task &t) {
  switch (t.x.type) {
  case CUDNN_DATA_DOUBLE:
    execute<double, double>(t);
    break;
  case CUDNN_DATA_FLOAT:
    execute<float, float>(t);
    break;
  case CUDNN_DATA_BFLOAT16:
    execute<ds::elem::BF16, float>(t);
    break;
  case CUDNN_DATA_HALF:
    execute<ds::elem::F16, float>(t);
    break;
  }
  return "";
}

// -- one of each of its calls, whatever the kind ---------------------------------------------------

template <typename T> cudnnStatus_t create(const char *name, T **out) {
  if (cudnnStatus_t s = begin(name))
    return s;
  *out = new T;
  countObject(1);
  return CUDNN_STATUS_SUCCESS;
}
template <typename T> cudnnStatus_t destroy(const char *name, T *object) {
  cudnnStatus_t s = begin(name);
  if (!object)
    return wrong(CUDNN_STATUS_BAD_PARAM, "null");
  delete object;
  countObject(-1);
  return s;
}
cudnnStatus_t set(const char *name, Description *d, cudnnDataType_t type, int rank,
                  const int dims[]) {
  if (cudnnStatus_t s = begin(name))
    return s;
  d->type = type;
  d->dims.assign(dims, dims + rank);
  bool valid = rank >= 3 && std::all_of(dims, dims + rank, [](int n) { return n > 0; });
  return valid ? CUDNN_STATUS_SUCCESS : wrong(CUDNN_STATUS_BAD_PARAM, "extents");
}

template <typename Perf>
cudnnStatus_t list(const char *name, cudnnHandle_t handle, const Task &t, int wanted, int *count,
                   Perf *results) {
  if (cudnnStatus_t s = begin(name))
    return s;
  *count = 0;
  if (!handle || wanted < 1)
    return wrong(CUDNN_STATUS_BAD_PARAM, "handle");
  if (cudnnStatus_t s = check(t))
    return s;
  bool half = t.x.type == CUDNN_DATA_HALF || t.x.type == CUDNN_DATA_BFLOAT16;
  for (bool works : {true, false}) // what it cannot do comes behind
    for (const Algorithm &a : kAlgorithms)
      if (a.kind == t.kind && takes(a, t) == works && *count < wanted) {
        Perf &p = results[(*count)++];
        p = {};
        p.algo = static_cast<decltype(p.algo)>(a.number);
        p.status = works ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
        p.memory = works ? workOf(a, t) : 0;
        p.determinism = a.repeats ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
        p.mathType = half ? CUDNN_TENSOR_OP_MATH : t.c.math;
      }
  return CUDNN_STATUS_SUCCESS;
}

const Algorithm *find(const Task &t, int number) {
  for (const Algorithm &a : kAlgorithms)
    if (a.kind == t.kind && a.number == number && takes(a, t))
      return &a;
  return nullptr;
}

cudnnStatus_t size(const char *name, cudnnHandle_t handle, const Task &t, int number,
                   size_t *bytes) {
  if (cudnnStatus_t s = begin(name))
    return s;
  if (!handle)
    return wrong(CUDNN_STATUS_BAD_PARAM, "handle");
  if (cudnnStatus_t s = check(t))
    return s;
  const Algorithm *a = find(t, number);
  if (!a)
    return wrong(CUDNN_STATUS_NOT_SUPPORTED, "algorithm");
  *bytes = workOf(*a, t);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t compute(const char *name, cudnnHandle_t handle, Task t, const void *alpha,
                      const void *beta, int number, void *work, size_t workBytes) {
  if (cudnnStatus_t s = begin(name))
    return s;
  if (!handle || !exists(handle->stream))
    return wrong(CUDNN_STATUS_BAD_PARAM, "handle or stream");
  if (cudnnStatus_t s = check(t))
    return s;
  bool doubles = t.c.compute == CUDNN_DATA_DOUBLE;
  auto factor = [=](const void *p) {
    return doubles ? *static_cast<const double *>(p) : *static_cast<const float *>(p);
  };
  const Algorithm *a = find(t, number);
  // We only ever ask for the plain result.
  if (!a || factor(alpha) != 1 || factor(beta) != 0)
    return wrong(CUDNN_STATUS_NOT_SUPPORTED, "algorithm or factors");
  size_t needed = workOf(*a, t);
  if (needed > workBytes)
    return wrong(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace");
  for (auto [p, bytes] : {std::pair(t.px, bytesOf(t.x)),
                          {t.pw, bytesOf(t.w)},
                          {t.py, bytesOf(t.y)},
                          {static_cast<const void *>(work), needed}}) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0)
      return wrong(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "an operand is not aligned");
    if (bytes > 0 && !isInside(p, bytes))
      return wrong(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "an operand is out of bounds");
  }
  static std::atomic<int> calls = 0;
  t.parts = a->works ? 2 : 1;
  t.turn = a->repeats ? 0 : 1 + calls++ % 7;
  t.work = work;
  addWork(handle->stream, [t] { return execute(t); });
  return CUDNN_STATUS_SUCCESS;
}

} // namespace

size_t cudnnGetVersion() {
  return static_cast<size_t>(fromEnvironment("DS_EMULATED_CUDNN", 91900));
}
const char *cudnnGetErrorString(cudnnStatus_t s) {
  switch (s) {
#define NAME(x)                                                                                    \
  case x:                                                                                          \
    return #x;
    NAME(CUDNN_STATUS_SUCCESS)
    NAME(CUDNN_STATUS_BAD_PARAM)
    NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND)
    NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT)
    NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH)
    NAME(CUDNN_STATUS_NOT_SUPPORTED)
    NAME(CUDNN_STATUS_INTERNAL_ERROR)
#undef NAME
  }
  return "?";
}
void cudnnGetLastErrorString(char *message, size_t size) {
  size_t n = lastError.copy(message, size - 1);
  message[n] = '\0';
  lastError.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return create("cudnnCreate", handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy("cudnnDestroy", handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (cudnnStatus_t s = begin("cudnnSetStream"))
    return s;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *d) {
  return create("cudnnCreateTensorDescriptor", d);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  return destroy("cudnnDestroyTensorDescriptor", d);
}
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t d, cudnnTensorFormat_t,
                                           cudnnDataType_t type, int rank, const int dims[]) {
  return set("cudnnSetTensorNdDescriptorEx", d, type, rank, dims);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *d) {
  return create("cudnnCreateFilterDescriptor", d);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  return destroy("cudnnDestroyFilterDescriptor", d);
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t, int rank, const int dims[]) {
  return set("cudnnSetFilterNdDescriptor", d, type, rank, dims);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *d) {
  return create("cudnnCreateConvolutionDescriptor", d);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  return destroy("cudnnDestroyConvolutionDescriptor", d);
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int axes,
                                              const int pad[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (cudnnStatus_t s = begin("cudnnSetConvolutionNdDescriptor"))
    return s;
  d->pad.assign(pad, pad + axes);
  d->stride.assign(stride, stride + axes);
  d->dilation.assign(dilation, dilation + axes);
  d->compute = compute;
  // The other mode mirrors the window, which nobody asks for.
  return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS
                                         : wrong(CUDNN_STATUS_NOT_SUPPORTED, "mode");
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  if (cudnnStatus_t s = begin("cudnnSetConvolutionGroupCount"))
    return s;
  d->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  if (cudnnStatus_t s = begin("cudnnSetConvolutionMathType"))
    return s;
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                       cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                       cudnnTensorDescriptor_t y, int wanted, int *count,
                                       cudnnConvolutionFwdAlgoPerf_t *results) {
  return list("cudnnGetConvolutionForwardAlgorithm_v7", handle, {Kind::Forward, *x, *w, *y, *c},
              wanted, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t dx, int wanted, int *count,
    cudnnConvolutionBwdDataAlgoPerf_t *results) {
  return list("cudnnGetConvolutionBackwardDataAlgorithm_v7", handle, {Kind::Data, *dx, *w, *dy, *c},
              wanted, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t dw, int wanted, int *count,
    cudnnConvolutionBwdFilterAlgoPerf_t *results) {
  return list("cudnnGetConvolutionBackwardFilterAlgorithm_v7", handle,
              {Kind::Filter, *x, *dw, *dy, *c}, wanted, count, results);
}
cudnnStatus_t
cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                        cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                        cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
                                        size_t *bytes) {
  return size("cudnnGetConvolutionForwardWorkspaceSize", handle, {Kind::Forward, *x, *w, *y, *c},
              algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algo,
    size_t *bytes) {
  return size("cudnnGetConvolutionBackwardDataWorkspaceSize", handle,
              {Kind::Data, *dx, *w, *dy, *c}, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes) {
  return size("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle,
              {Kind::Filter, *x, *dw, *dy, *c}, algo, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      cudnnTensorDescriptor_t x, const void *px,
                                      cudnnFilterDescriptor_t w, const void *pw,
                                      cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algo, void *work, size_t workBytes,
                                      const void *beta, cudnnTensorDescriptor_t y, void *py) {
  return compute("cudnnConvolutionForward", handle,
                 {Kind::Forward, *x, *w, *y, *c, 1, 0, px, pw, py}, alpha, beta, algo, work,
                 workBytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           cudnnFilterDescriptor_t w, const void *pw,
                                           cudnnTensorDescriptor_t dy, const void *pdy,
                                           cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *work,
                                           size_t workBytes, const void *beta,
                                           cudnnTensorDescriptor_t dx, void *pdx) {
  return compute("cudnnConvolutionBackwardData", handle,
                 {Kind::Data, *dx, *w, *dy, *c, 1, 0, pdx, pw, pdy}, alpha, beta, algo, work,
                 workBytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             cudnnTensorDescriptor_t x, const void *px,
                                             cudnnTensorDescriptor_t dy, const void *pdy,
                                             cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *work,
                                             size_t workBytes, const void *beta,
                                             cudnnFilterDescriptor_t dw, void *pdw) {
  return compute("cudnnConvolutionBackwardFilter", handle,
                 {Kind::Filter, *x, *dw, *dy, *c, 1, 0, px, pdw, pdy}, alpha, beta, algo, work,
                 workBytes);
}
