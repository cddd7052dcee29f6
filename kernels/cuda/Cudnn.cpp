// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/Cudnn.h"

#if !__has_include(<cudnn.h>)

namespace ds::cuda {
const char *checkCudnn() { return nullptr; }
std::string describeCudnn() { return "this plugin was built without cuDNN's header"; }
} // namespace ds::cuda

#else

#include "kernels/cuda/Library.h"
#include "kernels/cuda/PerDevice.h"

#include <cstring>

namespace ds::cuda {

namespace {

constexpr LibraryName kName{"cudnn", "cuDNN", ": own convolutions", 90000};

struct Found : LibraryState {
  Cudnn lib = {};
};

Found open() {
  Found f;
#ifdef DS_CUDA_EMULATED
  f.isThere = emulated::hasLibrary("cudnn");
#define DS_ROW(name) f.lib.name = ::name;
  DS_CUDNN_FUNCTIONS(DS_ROW)
#undef DS_ROW
#else
  Library l{"cudnn", {"libcudnn.so.9"}, {}};
#define DS_ROW(name) l.functions.push_back({#name, reinterpret_cast<void **>(&f.lib.name)});
  DS_CUDNN_FUNCTIONS(DS_ROW)
#undef DS_ROW
  f.isThere = !openLibrary(l, &f.error).empty();
#endif
  if (!f.isThere)
    return f;
  size_t v = f.lib.cudnnGetVersion();
  // Before 9 the major version counted thousands.
  f.setVersion(kName, v < kName.oldest ? v / 1000 * 10000 + v % 1000 : v);
  return f;
}

const Found &found() {
  static const Found f = open();
  return f;
}
const LibraryState &state() { return found(); }

} // namespace

const char *findCudnn(const Cudnn **lib) {
  bool use = false;
  const char *message = findLibrary(kName, state, &use);
  *lib = use ? &found().lib : nullptr;
  return message;
}

const char *checkCudnn() {
  const Cudnn *lib;
  return findCudnn(&lib);
}

std::string describeCudnn() { return describeLibrary(kName, state); }

const char *checkedCudnn(const Cudnn &lib, cudnnStatus_t s, const char *call) {
  if (s == CUDNN_STATUS_SUCCESS)
    return nullptr;
  char more[256] = "";
  lib.cudnnGetLastErrorString(more, sizeof more);
  more[std::strcspn(more, "\n")] = '\0';
  auto name = static_cast<int>(std::strcspn(call, "("));
  return failure("%.*s: %s%s%s%s", name, call, lib.cudnnGetErrorString(s), *more ? " (" : "", more,
                 *more ? ")" : "");
}

const char *CudnnHandle::open() {
  CUDNN_TRY(lib, cudnnCreate(&handle));
  return nullptr;
}

CudnnHandle::~CudnnHandle() {
  if (handle)
    lib.cudnnDestroy(handle);
}

const char *cudnnHandle(const Cudnn &lib, std::shared_ptr<CudnnHandle> *out) {
  static auto *all = new PerDevice<CudnnHandle>; // outlives whoever ends last
  return all->get(lib, out);
}

} // namespace ds::cuda

#endif
