// SPDX-License-Identifier: Apache-2.0
//
// One matrix product by oneDNN, for kernels that are made of products. The primitive is created in prepare with the stream's
// thread count; scratch memory is the caller's. The choice depends on shapes, strides, threads and machine only.
#pragma once

#include "kernels/MatmulShape.h"
#include "kernels/cpu/Dnnl.h"

#include <cstdint>
#include <optional>

namespace ds::cpu {

/// C = A B, or C += A B with `adds`, and then + bias, a row of n, in every row. Sums are f32.
struct ProductSpec {
  MatmulShape shape;
  DType in = DType::F32, out = DType::F32; // of A and B (and bias), of C: f32 or bf16
  bool adds = false, bias = false;
};

class Product {
public:
  /// Bytes of scratch memory for the fastest way within `limit`; none if only ownMatmul will do.
  static std::optional<size_t> work(const ProductSpec &spec, int threads, size_t limit = SIZE_MAX);
  /// False: use ownMatmul.
  bool prepare(const ProductSpec &spec, int threads, size_t workBytes);
  const char *run(const void *a, const void *b, void *c, void *work, int threads,
                  const void *bias = nullptr) const;

private:
#ifdef DS_HAVE_DNNL
  dnnl::stream stream;
  DnnlCall product, pack;
  bool packs = false, bias = false;
  size_t packedAt = 0;
#endif
};

} // namespace ds::cpu
