// SPDX-License-Identifier: Apache-2.0
//
// matmul: oneDNN's product with a workspace of the plan's, or our own kernel where oneDNN is absent, has only its reference
// loops for the layout, or would need more workspace than the plan has.
#include "kernels/cpu/Matmul.h"

#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Product.h"

namespace ds::cpu {

class Matmul {
public:
  static size_t work(const DsLaunch &l) {
    ProductSpec spec;
    return matmulShape(l, spec.shape) ? 0 : Product::work(spec, l.threads).value_or(0);
  }
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireF32(l))
      return message;
    if (const char *message = matmulShape(l, spec.shape))
      return message;
    byLibrary = product.prepare(spec, l.threads, l.workBytes);
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    const float *a = f32(l.ins[spec.shape.swapped ? 1 : 0]),
                *b = f32(l.ins[spec.shape.swapped ? 0 : 1]);
    if (byLibrary)
      return product.run(a, b, l.outs[0].data, l.work, l.threads);
    ownMatmul(spec.shape, a, b, f32(l.outs[0]), l.threads);
    return nullptr;
  }

private:
  ProductSpec spec;
  Product product;
  bool byLibrary = false;
};

/// bf16 by oneDNN where the processor has dot products of it, else, as f16, through f32.
class AnyMatmul {
public:
  static size_t work(const DsLaunch &l) {
    ProductSpec spec;
    if (isBf16(l, spec))
      if (auto bytes = Product::work(spec, l.threads))
        return *bytes;
    return Widen<Matmul>::work(l);
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
                       l.work, l.threads);
  }

private:
  static bool isBf16(const DsLaunch &l, ProductSpec &spec) {
    spec.in = spec.out = DType::BF16;
    return is(l.ins[0], DType::BF16) && is(l.ins[1], DType::BF16) && is(l.outs[0], DType::BF16) &&
           !matmulShape(l, spec.shape);
  }
  ProductSpec spec;
  Product product;
  bool byLibrary = false;
  Widen<Matmul> widened;
};

const KernelFns matmul = fnsOf<AnyMatmul>();

} // namespace ds::cpu
