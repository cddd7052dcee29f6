// SPDX-License-Identifier: Apache-2.0
//
// One matrix product by cuBLASLt: described and its algorithm chosen once, by shape alone, so that two runs and every stage
// have the same bits. f32 sums, without TF32; parts of the inner axis are added in a fixed order.
#pragma once

#include "kernels/MatmulShape.h"
#include "kernels/cuda/Lt.h"

#include <vector>

namespace ds::cuda {

/// Of A and B, and of C: the same, or f32 for 16 bits. adds: C += A B.
struct LtTypes {
  DType in = DType::F32, out = DType::F32;
  bool adds = false;
};

class LtMatmul {
public:
  /// *taken: whether the library computes this product; if not, our kernel does.
  const char *prepare(const Lt &lt, const MatmulShape &s, const LtTypes &t, size_t workBytes,
                      bool *taken);
  ~LtMatmul();
  /// A and B as in the shape, i.e. exchanged if it is `swapped`.
  const char *run(const void *a, const void *b, void *c, void *work, cudaStream_t stream) const;
  /// The algorithm, for people.
  const char *describe(std::string *text) const;

private:
  /// A matrix as the library sees it: columns of `rows` elements, `ld` apart.
  struct Matrix {
    uint64_t rows = 0, columns = 0;
    int64_t ld = 0;
    cublasOperation_t op = CUBLAS_OP_N;
    cublasLtMatrixLayout_t layout = nullptr;
  };
  /// For operands that lie at multiples of 16 bytes, and for others.
  struct Choice {
    bool isThere = false;
    cublasLtMatmulAlgo_t algorithm = {};
    size_t work = 0;
  };
  static bool lay(int64_t rows, int64_t cols, int64_t rowStride, int64_t colStride, Matrix *m);
  const char *layout(Matrix &m, DType t, int32_t batch, int64_t stride);
  const char *choose(uint32_t alignment, size_t workBytes, Choice *choice);

  const Lt *lt = nullptr;
  std::shared_ptr<LtHandle> handle;
  MatmulShape shape;
  LtTypes types;
  cublasLtMatmulDesc_t operation = nullptr;
  Matrix first, second, result; // the library's: B, A, C
  Choice aligned, any;
  struct Offsets {
    int64_t a, b, c; // bytes
  };
  std::vector<Offsets> calls; // one per element of the outer batch axes
};

} // namespace ds::cuda
