// SPDX-License-Identifier: Apache-2.0
#include "kernels/CudaWork.h"

#include "ir/DType.h"
#include "kernels/CudnnShape.h"
#include "kernels/LinearLoss.h"

#include <algorithm>

namespace ds {

namespace {

constexpr int64_t kMost = 32 << 20; // what cuBLAS takes by itself on a GPU of 2022
constexpr int64_t kParts = 8;

size_t capped(int64_t elements) {
  int64_t bytes = std::min(elements, kMost) * kParts * static_cast<int64_t>(sizeof(float));
  return static_cast<size_t>(std::min(kMost, (bytes + 255) / 256 * 256));
}

// A sum for each block, of at least 2048 elements.
size_t sumsOfBlocks(const DsLaunch &l) {
  return static_cast<size_t>(std::clamp<int64_t>((elems(l.ins[0]) + 2047) / 2048, 1, kMseBlocks)) *
         sizeof(double);
}

// Room for f32 sums of eight parts of the inner axis.
size_t product(const DsLaunch &l) { return cudaProductWork(elems(l.outs[0])); }

// Operands and result, in f32 and in tiles that overlap. Tensor cores want channels last and in eights: 16-bit tensors get room
// for all three in that layout, however large.
template <ConvKind kind> size_t convolution(const DsLaunch &l) {
  constexpr int64_t kEights = 8;
  ConvShape s(l, kind);
  CudnnShape shape;
  if (cudnnShape(s, shape))
    return 0;
  int64_t count = 0, converted = 0, size = byteSize(static_cast<DType>(l.outs[0].dtype));
  for (const DsTensor *t : {&s.x, &s.w, &s.y}) {
    count += elems(*t);
    converted += elems(*t) / t->dims[1] * ((t->dims[1] + kEights - 1) / kEights * kEights) * size;
  }
  size_t most = capped(count);
  return size == 2 ? std::max(most, (static_cast<size_t>(converted) + 255) / 256 * 256) : most;
}

struct Row {
  std::string_view op;
  size_t (*work)(const DsLaunch &);
};
constexpr Row kRows[] = {
    {"matmul", product},
    {"linear", product},
    {"linear_grad", product},
    {"linear_gelu_grad", product},
    {"linear_cross_entropy", [](const DsLaunch &l) { return cudaLinearLossWork(l, false); }},
    {"linear_cross_entropy_grad", [](const DsLaunch &l) { return cudaLinearLossWork(l, true); }},
    {"mse", sumsOfBlocks},
    {"conv", convolution<ConvKind::Forward>},
    {"conv_grad_input", convolution<ConvKind::GradInput>},
    {"conv_grad_weight", convolution<ConvKind::GradWeight>},
};

} // namespace

size_t cudaProductWork(int64_t elements) { return capped(elements); }

size_t cudaWork(std::string_view op, const DsLaunch &l) {
  for (const Row &r : kRows)
    if (r.op == op)
      return isFloat(static_cast<DType>(l.outs[0].dtype)) ? r.work(l) : 0;
  return 0;
}

} // namespace ds
