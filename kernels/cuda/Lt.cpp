// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/Lt.h"

#include "kernels/cuda/Library.h"
#include "kernels/cuda/PerDevice.h"

#include <cstring>

namespace ds::cuda {

namespace {

constexpr LibraryName kName{"cublasLt", "cuBLASLt", ": own matrix products", 120000};

struct Found : LibraryState {
  Lt lt = {};
};

Found open() {
  Found f;
#ifdef DS_CUDA_EMULATED
  f.isThere = emulated::hasLibrary("cublasLt");
#define DS_ROW(name) f.lt.name = ::name;
  DS_LT_FUNCTIONS(DS_ROW)
#undef DS_ROW
#else
  Library l{"cublasLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, {}};
#define DS_ROW(name) l.functions.push_back({#name, reinterpret_cast<void **>(&f.lt.name)});
  DS_LT_FUNCTIONS(DS_ROW)
#undef DS_ROW
  f.isThere = !openLibrary(l, &f.error).empty();
#endif
  if (f.isThere)
    f.setVersion(kName, f.lt.cublasLtGetVersion());
  return f;
}

const Found &found() {
  static const Found f = open();
  return f;
}
const LibraryState &state() { return found(); }

} // namespace

const char *findLt(const Lt **lt) {
  bool use = false;
  const char *message = findLibrary(kName, state, &use);
  *lt = use ? &found().lt : nullptr;
  return message;
}

std::string describeLt() { return describeLibrary(kName, state); }

const char *checkedLt(const Lt &lt, cublasStatus_t s, const char *call) {
  if (s == CUBLAS_STATUS_SUCCESS)
    return nullptr;
  auto name = static_cast<int>(std::strcspn(call, "("));
  return failure("%.*s: %s", name, call, lt.cublasLtGetStatusName(s));
}

LtHandle::~LtHandle() {
  if (handle)
    lt.cublasLtDestroy(handle);
}

const char *LtHandle::open() {
  LT_TRY(lt, cublasLtCreate(&handle));
  return nullptr;
}

const char *ltHandle(const Lt &lt, std::shared_ptr<LtHandle> *out) {
  static auto *all = new PerDevice<LtHandle>; // outlives whoever ends last
  return all->get(lt, out);
}

} // namespace ds::cuda
