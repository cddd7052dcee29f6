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

/// What the library does beside the product, with a further operand or result.
enum class Epilogue {
  None,
  Bias,      // adds a bias to every row of C
  SumsOfA,   // the sums over the inner axis, of A
  SumsOfB,   // and of B
  GeluSlope, // times the slope of gelu, in the tanh form, at a matrix of C's shape
};

class LtMatmul {
public:
  /// *taken: whether the library computes this product; if not, our kernels do. ld: of the epilogue's matrix.
  const char *prepare(const Lt &lt, const MatmulShape &s, const LtTypes &t, size_t workBytes,
                      bool *taken, Epilogue e = Epilogue::None, int64_t ld = 0);
  ~LtMatmul();
  /// Whether run may be called with these: an epilogue may want them at multiples of 16 bytes.
  bool takes(const void *a, const void *b, const void *c, const void *other) const;
  /// A and B as in the shape, i.e. exchanged if it is `swapped`. other: the epilogue's.
  const char *run(const void *a, const void *b, void *c, void *work, cudaStream_t stream,
                  const void *other = nullptr) const;
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
  const char *describeEpilogue(int64_t ld);
  const char *setOther(const void *p) const;

  const Lt *lt = nullptr;
  std::shared_ptr<LtHandle> handle;
  MatmulShape shape;
  LtTypes types;
  Epilogue epilogue = Epilogue::None;
  cublasLtMatmulDesc_t operation = nullptr;
  Matrix first, second, result; // the library's: B, A, C
  Choice aligned, any;
  struct Offsets {
    int64_t a, b, c; // bytes
  };
  std::vector<Offsets> calls; // one per element of the outer batch axes
};

} // namespace ds::cuda
