// SPDX-License-Identifier: Apache-2.0
//
// The emulated cuBLASLt: four algorithms that add in different orders, so that a choice which is not the same every time shows
// in the bits. Two want operands at multiples of 16 bytes, two split the inner axis in halves, whose sums pass through the workspace.
// What the library does not take is refused as it does: shapes that disagree, memory out of bounds, a workspace too small.
#include "kernels/Element.h"
#include "test/emulation/Machine.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>

using namespace ds::emulated;

struct LtContext {};
struct LtOperation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t opA = CUBLAS_OP_N, opB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr; // bias: also the sums of a gradient
  int64_t auxLd = 0;

  void *other() const { return epilogue == CUBLASLT_EPILOGUE_DGELU ? aux : bias; }
};
struct LtLayout {
  cudaDataType_t type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct LtPreference {
  uint64_t work = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

/// In cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t vectors, parts;
};

/// Everything that a product needs.
struct Task {
  LtOperation d;
  LtLayout a, b, out;
  int64_t m, n, k;
  Algorithm algorithm;
  const void *pa, *pb;
  void *po;
  void *work;
  bool adds;
};

cublasStatus_t begin(const char *name) {
  return enter(name) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

int64_t sizeOf(cudaDataType_t t) { return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 2; }
int64_t bytesOf(const LtLayout &l) {
  int64_t last = (l.batch - 1) * l.stride + (l.columns - 1) * l.ld + l.rows;
  return last * sizeOf(l.type);
}

// The task's shape, or false if the matrices do not fit together.
bool fits(const LtOperation &d, const LtLayout &a, const LtLayout &b, const LtLayout &out,
          Task *t) {
  t->d = d, t->a = a, t->b = b, t->out = out;
  t->m = d.opA == CUBLAS_OP_N ? a.rows : a.columns;
  t->k = d.opA == CUBLAS_OP_N ? a.columns : a.rows;
  t->n = d.opB == CUBLAS_OP_N ? b.columns : b.rows;
  bool doubles = d.compute == CUBLAS_COMPUTE_64F;
  for (const LtLayout *l : {&a, &b, &out})
    if (l->rows <= 0 || l->columns <= 0 || l->ld < l->rows || l->batch != out.batch ||
        doubles != (l->type == CUDA_R_64F))
      return false;
  bool widens = sizeOf(a.type) == 2 && out.type == CUDA_R_32F;
  if (a.type != b.type || (a.type != out.type && !widens))
    return false;
  return t->k == (d.opB == CUBLAS_OP_N ? b.rows : b.columns) && out.rows == t->m &&
         out.columns == t->n && d.scale == (doubles ? CUDA_R_64F : CUDA_R_32F) &&
         (out.batch == 1 || out.stride >= out.rows);
}

// As the library documents its epilogues: none for doubles, gelu's matrix at rows of eight elements.
bool supports(const Task &t) {
  if (t.d.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return true;
  if (t.d.epilogue == CUBLASLT_EPILOGUE_DGELU && (t.d.auxLd % 8 != 0 || t.d.auxLd < t.m))
    return false;
  return t.out.type != CUDA_R_64F && t.out.type == t.a.type && t.out.batch == 1;
}
int64_t otherBytes(const Task &t) {
  int64_t elements = t.d.epilogue == CUBLASLT_EPILOGUE_DEFAULT  ? 0
                     : t.d.epilogue == CUBLASLT_EPILOGUE_DGELU  ? (t.n - 1) * t.d.auxLd + t.m
                     : t.d.epilogue == CUBLASLT_EPILOGUE_BGRADB ? t.n
                                                                : t.m;
  return elements * sizeOf(t.out.type);
}

int64_t partBytes(const Task &t) {
  return t.m * t.n * t.out.batch * static_cast<int64_t>(t.d.scale == CUDA_R_64F ? 8 : 4);
}

// Sums of the inner axis from k0 to k1; with vectors in four interleaved sums.
template <typename T, typename V>
void product(const Task &t, int64_t k0, int64_t k1, const std::function<void(int64_t, V)> &store) {
  auto *a = static_cast<const T *>(t.pa), *b = static_cast<const T *>(t.pb);
  bool ta = t.d.opA == CUBLAS_OP_T, tb = t.d.opB == CUBLAS_OP_T;
  size_t lanes = t.algorithm.vectors ? 4 : 1;
  int64_t at = 0;
  for (int64_t batch = 0; batch < t.out.batch; ++batch)
    for (int64_t j = 0; j < t.n; ++j)
      for (int64_t i = 0; i < t.m; ++i) {
        V sum[4] = {};
        for (int64_t k = k0; k < k1; ++k) {
          V x = ds::elem::load(a[batch * t.a.stride + (ta ? i * t.a.ld + k : k * t.a.ld + i)]);
          V y = ds::elem::load(b[batch * t.b.stride + (tb ? k * t.b.ld + j : j * t.b.ld + k)]);
          sum[static_cast<size_t>(k) % lanes] += x * y;
        }
        store(at++, (sum[0] + sum[1]) + (sum[2] + sum[3]));
      }
}

// The slope of gelu in the tanh form.
template <typename V> V slope(V x) {
  const V scale = V(0.79788456080286535588), cube = V(0.044715);
  V t = std::tanh(scale * (x + cube * x * x * x));
  return V(0.5) * (1 + t) + V(0.5) * x * (1 - t * t) * scale * (1 + 3 * cube * x * x);
}

// Over the inner axis, for each row of A or each column of B.
template <typename T, typename V> void sums(const Task &t) {
  bool ofA = t.d.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const LtLayout &l = ofA ? t.a : t.b;
  bool innerIsColumns = ofA == ((ofA ? t.d.opA : t.d.opB) == CUBLAS_OP_N);
  auto *from = static_cast<const T *>(ofA ? t.pa : t.pb);
  for (int64_t i = 0; i < (ofA ? t.m : t.n); ++i) {
    V sum = 0;
    for (int64_t k = 0; k < t.k; ++k)
      sum += static_cast<V>(ds::elem::load(from[innerIsColumns ? k * l.ld + i : i * l.ld + k]));
    static_cast<T *>(t.d.bias)[i] = ds::elem::store<T>(sum);
  }
}

template <typename T, typename V> V finished(const Task &t, int64_t i, int64_t j, V v) {
  if (t.d.epilogue == CUBLASLT_EPILOGUE_BIAS)
    v += static_cast<V>(ds::elem::load(static_cast<const T *>(t.d.bias)[i]));
  if (t.d.epilogue == CUBLASLT_EPILOGUE_DGELU)
    v *= slope(static_cast<V>(ds::elem::load(static_cast<const T *>(t.d.aux)[j * t.d.auxLd + i])));
  return v;
}

template <typename T, typename O, typename V> void execute(const Task &t) {
  auto *out = static_cast<O *>(t.po);
  auto put = [&](int64_t at, V v) {
    int64_t i = at % t.m, j = at / t.m % t.n;
    O &to = out[at / (t.m * t.n) * t.out.stride + j * t.out.ld + i];
    v = finished<T, V>(t, i, j, v);
    to = ds::elem::store<O>(t.adds ? v + static_cast<V>(ds::elem::load(to)) : v);
  };
  if (t.d.epilogue == CUBLASLT_EPILOGUE_BGRADA || t.d.epilogue == CUBLASLT_EPILOGUE_BGRADB)
    sums<T, V>(t);
  if (t.algorithm.parts == 1) {
    product<T, V>(t, 0, t.k, put);
    return;
  }
  auto *parts = static_cast<V *>(t.work);
  int64_t count = t.m * t.n * t.out.batch;
  product<T, V>(t, 0, t.k / 2, [&](int64_t at, V v) { parts[at] = v; });
  product<T, V>(t, t.k / 2, t.k, [&](int64_t at, V v) { parts[count + at] = v; });
  for (int64_t at = 0; at < count; ++at)
    put(at, parts[at] + parts[count + at]);
}

template <typename T> void executeHalf(const Task &t) {
  if (t.out.type == CUDA_R_32F)
    execute<T, float, float>(t);
  else
    execute<T, T, float>(t);
}

std::string execute(const Task &t) {
  switch (t.a.type) {
  case CUDA_R_64F:
    execute<double, double, double>(t);
    break;
  case CUDA_R_32F:
    execute<float, float, float>(t);
    break;
  case CUDA_R_16BF:
    executeHalf<ds::elem::BF16>(t);
    break;
  case CUDA_R_16F:
    executeHalf<ds::elem::F16>(t);
    break;
  }
  return "";
}

template <typename T, typename... A> cublasStatus_t create(const char *name, T **out, A... args) {
  if (cublasStatus_t s = begin(name))
    return s;
  *out = new T{args...};
  countObject(1);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T> cublasStatus_t destroy(const char *name, T *object) {
  cublasStatus_t s = begin(name);
  if (!object)
    return CUBLAS_STATUS_INVALID_VALUE;
  delete object;
  countObject(-1);
  return s;
}
template <typename T> cublasStatus_t assign(T *to, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

} // namespace

size_t cublasLtGetVersion() {
  return static_cast<size_t>(fromEnvironment("DS_EMULATED_CUBLASLT", 130000));
}
const char *cublasLtGetStatusName(cublasStatus_t s) {
  switch (s) {
#define NAME(x)                                                                                    \
  case x:                                                                                          \
    return #x;
    NAME(CUBLAS_STATUS_SUCCESS)
    NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    NAME(CUBLAS_STATUS_INVALID_VALUE)
    NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    NAME(CUBLAS_STATUS_NOT_SUPPORTED)
#undef NAME
  }
  return "?";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return create("cublasLtCreate", handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy("cublasLtDestroy", handle);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create("cublasLtMatmulDescCreate", d, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  return destroy("cublasLtMatmulDescDestroy", d);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *value,
                                              size_t bytes) {
  if (cublasStatus_t s = begin("cublasLtMatmulDescSetAttribute"))
    return s;
  switch (a) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign(&d->opA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign(&d->opB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign(&d->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign(&d->bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return assign(&d->aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return assign(&d->auxLd, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return create("cublasLtMatrixLayoutCreate", l, type, static_cast<int64_t>(rows),
                static_cast<int64_t>(columns), ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return destroy("cublasLtMatrixLayoutDestroy", l);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a,
                                                const void *value, size_t bytes) {
  if (cublasStatus_t s = begin("cublasLtMatrixLayoutSetAttribute"))
    return s;
  return a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? assign(&l->batch, value, bytes)
                                                 : assign(&l->stride, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
  return create("cublasLtMatmulPreferenceCreate", p);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return destroy("cublasLtMatmulPreferenceDestroy", p);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *value, size_t bytes) {
  if (cublasStatus_t s = begin("cublasLtMatmulPreferenceSetAttribute"))
    return s;
  if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign(&p->work, value, bytes);
  if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return assign(&p->schemes, value, bytes);
  return assign(&p->alignment[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
  if (cublasStatus_t s = begin("cublasLtMatmulAlgoGetHeuristic"))
    return s;
  *count = 0;
  Task t;
  if (!handle || wanted < 1 || !fits(*d, *a, *b, *out, &t))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supports(t))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm best{1, 1};
  for (const LtLayout *l : {a, b, out})
    best.vectors &= l->ld * sizeOf(l->type) % 16 == 0 && l->stride * sizeOf(l->type) % 16 == 0;
  for (uint32_t alignment : p->alignment)
    best.vectors &= alignment >= 16;
  if (d->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    best.vectors &= reinterpret_cast<uintptr_t>(d->other()) % 16 == 0;
  bool splits = t.k >= 64 && (p->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
                static_cast<int64_t>(p->work) >= 2 * partBytes(t);
  best.parts = splits ? 2 : 1;
  results[0] = {};
  std::memcpy(&results[0].algo, &best, sizeof best);
  results[0].workspaceSize = splits ? static_cast<size_t>(2 * partBytes(t)) : 0;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t a,
                                                    void *value, size_t bytes, size_t *written) {
  if (cublasStatus_t s = begin("cublasLtMatmulAlgoConfigGetAttribute"))
    return s;
  Algorithm x;
  std::memcpy(&x, algo, sizeof x);
  auto answer = static_cast<int32_t>(a == CUBLASLT_ALGO_CONFIG_ID           ? x.vectors
                                     : a == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? x.parts
                                                                            : 1);
  if (bytes != sizeof answer)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &answer, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *out, cublasLtMatrixLayout_t lout,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t workBytes,
                              cudaStream_t stream) {
  if (cublasStatus_t s = begin("cublasLtMatmul"))
    return s;
  Task t;
  if (!handle || !exists(stream) || !fits(*d, *la, *lb, *lout, &t) || !supports(t))
    return CUBLAS_STATUS_INVALID_VALUE;
  // We only ever ask for D = A B and D = A B + D.
  bool doubles = d->scale == CUDA_R_64F;
  double factors[2] = {
      doubles ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha),
      doubles ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta)};
  std::memcpy(&t.algorithm, algo, sizeof t.algorithm);
  size_t needed = t.algorithm.parts == 2 ? static_cast<size_t>(2 * partBytes(t)) : 0;
  if (factors[0] != 1 || (factors[1] != 0 && factors[1] != 1) || c != out || needed > workBytes ||
      reinterpret_cast<uintptr_t>(work) % 256 != 0 ||
      !isInside(a, static_cast<size_t>(bytesOf(*la))) ||
      !isInside(b, static_cast<size_t>(bytesOf(*lb))) ||
      !isInside(out, static_cast<size_t>(bytesOf(*lout))) || !isInside(work, needed) ||
      !isInside(d->other(), static_cast<size_t>(otherBytes(t))))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool plain = d->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  for (const void *p :
       {a, b, static_cast<const void *>(out), plain ? a : static_cast<const void *>(d->other())})
    if (t.algorithm.vectors && reinterpret_cast<uintptr_t>(p) % 16 != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  t.pa = a, t.pb = b, t.po = out, t.work = work, t.adds = factors[1] == 1;
  addWork(stream, [t] { return execute(t); });
  return CUBLAS_STATUS_SUCCESS;
}
