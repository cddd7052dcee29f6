// SPDX-License-Identifier: Apache-2.0
//
// The library's matrices are column-major: it computes C^T = B^T A^T, where ours are their transposes as they lie.
#include "kernels/cuda/LtMatmul.h"

#include <cinttypes>
#include <cstdio>

namespace ds::cuda {

namespace {

constexpr int64_t kMostCalls = 64;
constexpr uint32_t kAligned = 16; // bytes; what vector loads and the copy engines of sm_90 want

cudaDataType_t dataType(DType t) {
  switch (t) {
  case DType::F64:
    return CUDA_R_64F;
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F16:
    return CUDA_R_16F;
  default:
    return CUDA_R_32F;
  }
}

cublasLtEpilogue_t libraryEpilogue(Epilogue e) {
  switch (e) {
  case Epilogue::None:
    return CUBLASLT_EPILOGUE_DEFAULT;
  case Epilogue::Bias:
    return CUBLASLT_EPILOGUE_BIAS;
  case Epilogue::SumsOfA: // the library's B
    return CUBLASLT_EPILOGUE_BGRADB;
  case Epilogue::SumsOfB:
    return CUBLASLT_EPILOGUE_BGRADA;
  case Epilogue::GeluSlope:
    return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}
const char *wordOf(Epilogue e) {
  static const char *const words[] = {"", " with bias", " with sums", " with sums",
                                      " with slope of gelu"};
  return words[static_cast<int>(e)];
}

bool isAligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % kAligned == 0; }

/// Deleted when the choice is made.
struct Preference {
  const Lt &lt;
  cublasLtMatmulPreference_t p = nullptr;
  ~Preference() {
    if (p)
      lt.cublasLtMatmulPreferenceDestroy(p);
  }
};

} // namespace

LtMatmul::~LtMatmul() {
  if (!lt)
    return;
  for (Matrix *m : {&first, &second, &result})
    if (m->layout)
      lt->cublasLtMatrixLayoutDestroy(m->layout);
  if (operation)
    lt->cublasLtMatmulDescDestroy(operation);
}

// False if neither axis is contiguous.
bool LtMatmul::lay(int64_t rows, int64_t cols, int64_t rowStride, int64_t colStride, Matrix *m) {
  bool plain = colStride == 1 && rowStride >= cols;
  if (!plain && !(rowStride == 1 && colStride >= rows))
    return false;
  m->rows = static_cast<uint64_t>(plain ? cols : rows);
  m->columns = static_cast<uint64_t>(plain ? rows : cols);
  m->ld = plain ? rowStride : colStride;
  m->op = plain ? CUBLAS_OP_N : CUBLAS_OP_T;
  return true;
}

const char *LtMatmul::layout(Matrix &m, DType t, int32_t batch, int64_t stride) {
  LT_TRY(*lt, cublasLtMatrixLayoutCreate(&m.layout, dataType(t), m.rows, m.columns, m.ld));
  if (batch == 1)
    return nullptr;
  LT_TRY(*lt, cublasLtMatrixLayoutSetAttribute(m.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                               sizeof batch));
  LT_TRY(*lt, cublasLtMatrixLayoutSetAttribute(
                  m.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return nullptr;
}

const char *LtMatmul::setOther(const void *p) const {
  LT_TRY(*lt, cublasLtMatmulDescSetAttribute(operation,
                                             epilogue == Epilogue::GeluSlope
                                                 ? CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER
                                                 : CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &p, sizeof p));
  return nullptr;
}

const char *LtMatmul::describeEpilogue(int64_t ld) {
  if (epilogue == Epilogue::None)
    return nullptr;
  auto value = static_cast<uint32_t>(libraryEpilogue(epilogue));
  LT_TRY(*lt, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &value,
                                             sizeof value));
  if (epilogue == Epilogue::GeluSlope)
    LT_TRY(*lt, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld,
                                               sizeof ld));
  return nullptr;
}

const char *LtMatmul::choose(uint32_t alignment, size_t workBytes, Choice *choice) {
  Preference preference{*lt};
  LT_TRY(*lt, cublasLtMatmulPreferenceCreate(&preference.p));
  auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const void *value,
                 size_t bytes) -> const char * {
    LT_TRY(*lt, cublasLtMatmulPreferenceSetAttribute(preference.p, what, value, bytes));
    return nullptr;
  };
  uint64_t work = workBytes;
  if (const char *m = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof work))
    return m;
  // Parts are written to the workspace in full precision and then added, whichever is ready first.
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (const char *m = set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme))
    return m;
  for (auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    if (const char *m = set(what, &alignment, sizeof alignment))
      return m;
  // The heuristic looks at how the epilogue's pointer is aligned, and not at what is there.
  if (epilogue != Epilogue::None)
    if (const char *m = setOther(reinterpret_cast<const void *>(uintptr_t{256} + alignment)))
      return m;
  cublasLtMatmulHeuristicResult_t best = {};
  int count = 0;
  cublasStatus_t s = lt->cublasLtMatmulAlgoGetHeuristic(handle->handle, operation, first.layout,
                                                        second.layout, result.layout, result.layout,
                                                        preference.p, 1, &best, &count);
  if (s == CUBLAS_STATUS_NOT_SUPPORTED ||
      (epilogue != Epilogue::None && s == CUBLAS_STATUS_INVALID_VALUE))
    return nullptr;
  if (const char *m = checkedLt(*lt, s, "cublasLtMatmulAlgoGetHeuristic"))
    return m;
  choice->isThere = count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  choice->algorithm = best.algo;
  choice->work = best.workspaceSize;
  return nullptr;
}

const char *LtMatmul::prepare(const Lt &library, const MatmulShape &s, const LtTypes &t,
                              size_t workBytes, bool *taken, Epilogue e, int64_t ld) {
  *taken = false;
  shape = s;
  types = t;
  epilogue = e;
  // Not of doubles; the matrix beside C lies at rows of eight elements.
  if (e != Epilogue::None && (t.in == DType::F64 || s.swapped || s.batchRank > 0))
    return nullptr;
  if (e == Epilogue::GeluSlope && (ld % 8 != 0 || ld < s.n))
    return nullptr;
  if (s.m == 0 || s.n == 0 || s.k == 0 || s.batches() == 0 || s.cn != 1 ||
      !lay(s.k, s.n, s.bk, s.bn, &first) || !lay(s.m, s.k, s.am, s.ak, &second) ||
      !lay(s.m, s.n, s.cm, s.cn, &result) || result.op != CUBLAS_OP_N)
    return nullptr;
  int inner = s.batchRank - 1;
  int64_t batch = inner < 0 ? 1 : s.batch[static_cast<size_t>(inner)];
  if (batch > INT32_MAX || s.batches() / batch > kMostCalls)
    return nullptr;
  const int64_t size = byteSize(t.in), outSize = byteSize(t.out);
  for (int64_t k = 0; k < s.batches() / batch; ++k) {
    Offsets at = {0, 0, 0};
    int64_t rest = k;
    for (int axis = inner - 1; axis >= 0; --axis) {
      auto i = static_cast<size_t>(axis);
      int64_t index = rest % s.batch[i];
      rest /= s.batch[i];
      at.a += index * s.batchA[i] * size, at.b += index * s.batchB[i] * size;
      at.c += index * s.batchC[i] * outSize;
    }
    calls.push_back(at);
  }

  lt = &library;
  if (const char *m = ltHandle(library, &handle))
    return m;
  bool isDouble = t.in == DType::F64;
  LT_TRY(*lt,
         cublasLtMatmulDescCreate(&operation, isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                  isDouble ? CUDA_R_64F : CUDA_R_32F));
  LT_TRY(*lt, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &first.op,
                                             sizeof first.op));
  LT_TRY(*lt, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &second.op,
                                             sizeof second.op));
  if (const char *m = describeEpilogue(ld))
    return m;
  auto stride = [&](const auto &of) { return inner < 0 ? 0 : of[static_cast<size_t>(inner)]; };
  auto n = static_cast<int32_t>(batch);
  if (const char *m = layout(first, t.in, n, stride(s.batchB)))
    return m;
  if (const char *m = layout(second, t.in, n, stride(s.batchA)))
    return m;
  if (const char *m = layout(result, t.out, n, stride(s.batchC)))
    return m;
  if (const char *m = choose(kAligned, workBytes, &aligned))
    return m;
  if (const char *m = choose(static_cast<uint32_t>(size), workBytes, &any))
    return m;
  *taken = any.isThere || (e != Epilogue::None && aligned.isThere);
  return nullptr;
}

bool LtMatmul::takes(const void *a, const void *b, const void *c, const void *other) const {
  return any.isThere ||
         (aligned.isThere && isAligned(a) && isAligned(b) && isAligned(c) && isAligned(other));
}

const char *LtMatmul::run(const void *a, const void *b, void *c, void *work, cudaStream_t stream,
                          const void *other) const {
  if (epilogue != Epilogue::None)
    if (const char *m = setOther(other))
      return m;
  const double one = 1, rest = types.adds ? 1 : 0;
  const float one32 = 1, rest32 = types.adds ? 1 : 0;
  bool isDouble = types.in == DType::F64;
  for (const Offsets &o : calls) {
    const void *x = static_cast<const char *>(b) + o.b, *y = static_cast<const char *>(a) + o.a;
    void *z = static_cast<char *>(c) + o.c;
    bool vectors =
        aligned.isThere && isAligned(x) && isAligned(y) && isAligned(z) && isAligned(other);
    const Choice &choice = vectors ? aligned : any;
    LT_TRY(*lt,
           cublasLtMatmul(handle->handle, operation,
                          isDouble ? static_cast<const void *>(&one) : &one32, x, first.layout, y,
                          second.layout, isDouble ? static_cast<const void *>(&rest) : &rest32, z,
                          result.layout, z, result.layout, &choice.algorithm,
                          choice.work ? work : nullptr, choice.work, stream));
  }
  return nullptr;
}

const char *LtMatmul::describe(std::string *out) const {
  const Choice &choice = aligned.isThere ? aligned : any;
  int32_t id = 0, tile = 0, stages = 0, parts = 0;
  for (auto [what, value] : {std::pair(CUBLASLT_ALGO_CONFIG_ID, &id),
                             {CUBLASLT_ALGO_CONFIG_TILE_ID, &tile},
                             {CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages},
                             {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts}}) {
    size_t written = 0;
    LT_TRY(*lt, cublasLtMatmulAlgoConfigGetAttribute(&choice.algorithm, what, value, sizeof *value,
                                                     &written));
  }
  char line[256];
  std::snprintf(line, sizeof line,
                "matmul%s %s %" PRId64 " x %" PRId64 " x %" PRId64
                "%s: cuBLASLt algorithm %d, tile %d, stages %d, inner axis in %d, %zu bytes",
                wordOf(epilogue), std::string(text(types.in)).c_str(), shape.m, shape.n, shape.k,
                shape.batchRank ? (", batch " + std::to_string(shape.batches())).c_str() : "", id,
                tile, stages, parts, choice.work);
  *out = line;
  return nullptr;
}

} // namespace ds::cuda
