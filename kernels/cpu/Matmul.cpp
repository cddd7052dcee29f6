// SPDX-License-Identifier: Apache-2.0
//
// matmul and linear: oneDNN's product with a workspace of the plan's, or our own kernel where oneDNN is absent, has only its
// reference loops for the layout, or would need more workspace than the plan has.
#include "kernels/cpu/Matmul.h"

#include "kernels/cpu/Half.h"
#include "kernels/cpu/Inner.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Product.h"

namespace ds::cpu {

// The product in a launch of matmul; or in one of linear, whose third operand is the bias.
template <bool kBias> static const char *shapeOf(const DsLaunch &l, MatmulShape &s) {
  s = {};
  if constexpr (!kBias)
    return matmulShape(l, s);
  InnerLaunch product;
  product.product(l);
  return matmulShape(product.at(l), s);
}

/// False if the library does not take the launch.
template <bool kBias> static bool describe(const DsLaunch &l, ProductSpec &spec) {
  if (shapeOf<kBias>(l, spec.shape))
    return false;
  spec.bias = kBias;
  return !kBias || (!spec.shape.swapped && (spec.shape.n == 1 || l.ins[2].strides[0] == 1));
}

template <bool kBias> class Matmul {
public:
  static size_t work(const DsLaunch &l) {
    ProductSpec spec;
    return describe<kBias>(l, spec) ? Product::work(spec, l.threads).value_or(0) : 0;
  }
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireF32(l))
      return message;
    if (const char *message = shapeOf<kBias>(l, spec.shape))
      return message;
    byLibrary = describe<kBias>(l, spec) && product.prepare(spec, l.threads, l.workBytes);
    if (!kBias || byLibrary)
      return nullptr;
    addition.launch.addBias(l);
    return addition.prepare(add, l);
  }
  const char *run(const DsLaunch &l) {
    const float *a = f32(l.ins[spec.shape.swapped ? 1 : 0]),
                *b = f32(l.ins[spec.shape.swapped ? 0 : 1]);
    if (byLibrary)
      return product.run(a, b, l.outs[0].data, l.work, l.threads, kBias ? l.ins[2].data : nullptr);
    ownMatmul(spec.shape, a, b, f32(l.outs[0]), l.threads);
    return kBias ? addition.run(l) : nullptr;
  }

private:
  ProductSpec spec;
  Product product;
  InnerKernel addition;
  bool byLibrary = false;
};

/// bf16 by oneDNN where the processor has dot products of it, else, as f16, through f32.
template <bool kBias> class AnyMatmul {
public:
  static size_t work(const DsLaunch &l) {
    ProductSpec spec;
    if (isBf16(l, spec))
      if (auto bytes = Product::work(spec, l.threads))
        return *bytes;
    return Widen<Matmul<kBias>>::work(l);
  }
  const char *prepare(const DsLaunch &l) {
    byLibrary = isBf16(l, spec) && product.prepare(spec, l.threads, l.workBytes);
    return byLibrary ? nullptr : widened.prepare(l);
  }
  const char *run(const DsLaunch &l) {
    if (!byLibrary)
      return widened.run(l);
    const bool swapped = spec.shape.swapped;
    return product.run(l.ins[swapped ? 1 : 0].data, l.ins[swapped ? 0 : 1].data, l.outs[0].data,
                       l.work, l.threads, kBias ? l.ins[2].data : nullptr);
  }

private:
  static bool isBf16(const DsLaunch &l, ProductSpec &spec) {
    spec.in = spec.out = DType::BF16;
    bool all = is(l.outs[0], DType::BF16);
    for (int i = 0; i < l.numIns; ++i)
      all = all && is(l.ins[i], DType::BF16);
    return all && describe<kBias>(l, spec);
  }
  ProductSpec spec;
  Product product;
  bool byLibrary = false;
  Widen<Matmul<kBias>> widened;
};

const KernelFns matmul = fnsOf<AnyMatmul<false>>();
const KernelFns linear = fnsOf<AnyMatmul<true>>();

} // namespace ds::cpu
