// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/Lt.h"

#include "kernels/cuda/Library.h"
#include "kernels/cuda/PerDevice.h"

#include <cstring>

namespace ds::cuda {

namespace {

constexpr size_t kOldest = 120000; // major * 10000 + minor * 100 + patch

struct Found {
  Lt lt = {};
  bool isThere = false;
  size_t version = 0;
  std::string error;
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
  if (!f.isThere || !f.error.empty())
    return f;
  f.version = f.lt.cublasLtGetVersion();
  if (f.version < kOldest)
    f.error = "cuBLASLt is " + versionText(f.version) + ", this plugin needs " +
              versionText(kOldest) + " or newer; DS_CUDA_LIBRARIES=none runs without it";
  return f;
}

const Found &found() {
  static const Found f = open();
  return f;
}

} // namespace

const char *findLt(const Lt **lt) {
  *lt = nullptr;
  if (!mayUse("cublasLt"))
    return nullptr;
  const Found &f = found();
  if (!f.error.empty())
    return f.error.c_str();
  if (f.isThere)
    *lt = &f.lt;
  return nullptr;
}

std::string describeLt() {
  if (!mayUse("cublasLt"))
    return "cuBLASLt is not used";
  return found().isThere ? "cuBLASLt " + versionText(found().version)
                         : "cuBLASLt is missing: own matrix products";
}

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
