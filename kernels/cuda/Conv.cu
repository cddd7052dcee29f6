// SPDX-License-Identifier: Apache-2.0
//
// Convolution and its gradients by cuDNN, and what it does not take or where it is missing without tensor cores: a thread per
// element of the result, one sum in a fixed order.
#include "kernels/CudaWork.h"
#include "kernels/cuda/CudnnConv.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Window.cuh"

#include <new>

namespace ds::cuda {

namespace {

/// Of a ConvShape, what the device needs.
struct ConvSizes {
  Box result;
  Windows windows;
  int64_t groupInputs, groupOutputs, batch;
};

// y[n,m,o]
template <typename T>
__global__ void convKernel(Image<T> y, Image<const T> x, Image<const T> w, ConvSizes s) {
  forBox(s.result, [&](int64_t n, int64_t m, const Place &o) {
    Wide<T> sum = 0;
    int64_t first = m / s.groupOutputs * s.groupInputs;
    for (int64_t c = 0; c < s.groupInputs; ++c)
      s.windows.forTaps(o, [&](const Place &i, const Place &k) {
        sum += static_cast<Wide<T>>(value(x.at(n, first + c, i))) * value(w.at(m, c, k));
      });
    y.at(n, m, o) = rounded<T>(sum);
  });
}

// dx[n,c,i]
template <typename T>
__global__ void convGradInputKernel(Image<T> dx, Image<const T> dy, Image<const T> w, ConvSizes s) {
  forBox(s.result, [&](int64_t n, int64_t c, const Place &i) {
    Wide<T> sum = 0;
    int64_t group = c / s.groupInputs, first = group * s.groupOutputs;
    for (int64_t m = first; m < first + s.groupOutputs; ++m)
      s.windows.forWindowsAt(i, [&](const Place &o, const Place &k) {
        sum += static_cast<Wide<T>>(value(dy.at(n, m, o))) *
               value(w.at(m, c - group * s.groupInputs, k));
      });
    dx.at(n, c, i) = rounded<T>(sum);
  });
}

// dw[m,c,k]
template <typename T>
__global__ void convGradWeightKernel(Image<T> dw, Image<const T> dy, Image<const T> x,
                                     ConvSizes s) {
  forBox(s.result, [&](int64_t m, int64_t c, const Place &k) {
    Wide<T> sum = 0;
    int64_t from = m / s.groupOutputs * s.groupInputs + c;
    const WindowAxis *a = s.windows.axis;
    Place o, i;
    for (int64_t n = 0; n < s.batch; ++n)
      for (o[0] = 0; o[0] < a[0].out; ++o[0])
        for (o[1] = 0; o[1] < a[1].out; ++o[1])
          for (o[2] = 0; o[2] < a[2].out; ++o[2]) {
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              i[d] = a[d].at(o[d], k[d]);
              inside &= i[d] >= 0 && i[d] < a[d].in;
            }
            if (inside)
              sum += static_cast<Wide<T>>(value(dy.at(n, m, o))) * value(x.at(n, from, i));
          }
    dw.at(m, c, k) = rounded<T>(sum);
  });
}

const char *ownConv(const DsLaunch &l, ConvKind kind) {
  ConvShape shape(l, kind);
  ConvSizes s = {boxOf(shape.result()), shape.windows, shape.groupInputs(), shape.groupOutputs(),
                 shape.x.dims[0]};
  if (s.result.count() == 0)
    return nullptr;
  return Floats::dispatch(l.outs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    auto go = [&](auto kernel, auto out, auto a, auto b) {
      return launch(kernel, gridFor(s.result.count()), dim3(kBlock), 0, streamOf(l), out, a, b, s);
    };
    const Image<const T> x(shape.x), w(shape.w), y(shape.y);
    const Image<T> out(shape.result());
    if (kind == ConvKind::Forward)
      return go(convKernel<T>, out, x, w);
    if (kind == ConvKind::GradInput)
      return go(convGradInputKernel<T>, out, y, w);
    return go(convGradWeightKernel<T>, out, y, x);
  });
}

struct ConvState {
  bool byLibrary = false;
  CudnnConv library;
  std::string note;
};

const char *prepare(const DsLaunch &l, ConvKind kind, const char *op, void **state) {
  std::unique_ptr<ConvState> s(new (std::nothrow) ConvState);
  if (!s)
    return "out of memory";
  std::string note;
  if (const char *message = s->library.prepare(l, kind, &s->byLibrary, &note))
    return message;
  if (!note.empty())
    s->note = std::string(op) + " " + note;
  *state = s.release();
  return nullptr;
}

const char *run(const DsLaunch &l, ConvKind kind, void *state) {
  const auto &s = *static_cast<ConvState *>(state);
  return s.byLibrary && CudnnConv::isAligned(l) ? s.library.run(l, streamOf(l)) : ownConv(l, kind);
}

} // namespace

#define DS_CONV(name, op, kind)                                                                    \
  const char *name##Prepare(const DsLaunch *l, void **state) {                                     \
    return prepare(*l, kind, op, state);                                                           \
  }                                                                                                \
  const char *name(const DsLaunch *l, void *state) { return run(*l, kind, state); }                \
  void name##Destroy(void *state) { delete static_cast<ConvState *>(state); }                      \
  size_t name##Work(const DsLaunch *l) { return cudaWork(op, *l); }                                \
  const char *name##Note(void *state) {                                                            \
    const std::string &note = static_cast<ConvState *>(state)->note;                               \
    return note.empty() ? nullptr : note.c_str();                                                  \
  }
DS_CONV(conv, "conv", ConvKind::Forward)
DS_CONV(convGradInput, "conv_grad_input", ConvKind::GradInput)
DS_CONV(convGradWeight, "conv_grad_weight", ConvKind::GradWeight)
#undef DS_CONV

} // namespace ds::cuda
