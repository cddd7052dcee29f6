// SPDX-License-Identifier: Apache-2.0
//
// Gradients of linear, made of the kernels of matmul, reduce_sum and gelu_grad one after the other: each goes over memory as the
// op of its own would, and shares the workspace with the others. linear itself is in Matmul.cpp.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Inner.h"
#include "kernels/cpu/Kernels.h"

#include <algorithm>

namespace ds::cpu {

namespace {

class LinearGrad {
public:
  static size_t work(const DsLaunch &l) {
    Staging staging; // with the strides that prepare sees
    if (staging.init(l, 0))
      return 0;
    const DsLaunch &dense = staging.begin(l);
    InnerLaunch weight, bias;
    if (weight.weightGradient(dense) || bias.biasGradient(dense))
      return 0;
    return std::max(InnerKernel::work(matmul, weight, dense),
                    InnerKernel::work(reduceSum, bias, dense));
  }
  const char *prepare(const DsLaunch &l) {
    const char *message = weight.launch.weightGradient(l);
    message = message ? message : bias.launch.biasGradient(l);
    message = message ? message : weight.prepare(matmul, l);
    return message ? message : bias.prepare(reduceSum, l);
  }
  const char *run(const DsLaunch &l) {
    const char *message = weight.run(l);
    return message ? message : bias.run(l);
  }

private:
  InnerKernel weight, bias;
};

class LinearGeluGrad {
public:
  static size_t work(const DsLaunch &l) {
    InnerLaunch product, slope;
    product.product(l);
    slope.slope(l);
    return std::max(InnerKernel::work(matmul, product, l), InnerKernel::work(geluGrad, slope, l));
  }
  const char *prepare(const DsLaunch &l) {
    product.launch.product(l);
    slope.launch.slope(l);
    const char *message = product.prepare(matmul, l);
    return message ? message : slope.prepare(geluGrad, l);
  }
  const char *run(const DsLaunch &l) {
    const char *message = product.run(l);
    return message ? message : slope.run(l);
  }

private:
  InnerKernel product, slope;
};

} // namespace

const KernelFns linearGrad = fnsOf<Dense<LinearGrad>>();
const KernelFns linearGeluGrad = fnsOf<LinearGeluGrad>();

} // namespace ds::cpu
