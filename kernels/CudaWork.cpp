// SPDX-License-Identifier: Apache-2.0
#include "kernels/CudaWork.h"

#include "ir/DType.h"

#include <algorithm>

namespace ds {

namespace {

constexpr int64_t kMost = 32 << 20; // what cuBLAS takes by itself on a GPU of 2022
constexpr int64_t kParts = 8;

size_t capped(int64_t elements) {
  int64_t bytes = std::min(elements, kMost) * kParts * static_cast<int64_t>(sizeof(float));
  return static_cast<size_t>(std::min(kMost, (bytes + 255) / 256 * 256));
}

// Room for f32 sums of eight parts of the inner axis.
size_t product(const DsLaunch &l) { return capped(elems(l.outs[0])); }

// Operands and result, in f32 and in tiles that overlap.
size_t convolution(const DsLaunch &l) {
  return capped(elems(l.ins[0]) + elems(l.ins[1]) + elems(l.outs[0]));
}

struct Row {
  std::string_view op;
  size_t (*work)(const DsLaunch &);
};
constexpr Row kRows[] = {
    {"matmul", product},
    {"conv", convolution},
    {"conv_grad_input", convolution},
    {"conv_grad_weight", convolution},
};

} // namespace

size_t cudaWork(std::string_view op, const DsLaunch &l) {
  for (const Row &r : kRows)
    if (r.op == op)
      return isFloat(static_cast<DType>(l.outs[0].dtype)) ? r.work(l) : 0;
  return 0;
}

} // namespace ds
