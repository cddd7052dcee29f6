// SPDX-License-Identifier: Apache-2.0
#include "runtime/Plugin.h"

#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>

namespace ds {

StatusOr<const DsPlugin *> loadPlugin(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(fmt::format("cannot load the plugin: {}", dlerror())).at(path);
  auto entry = reinterpret_cast<DsPluginEntry>(dlsym(library, "ds_plugin_entry"));
  if (!entry)
    return Status::error("is no device plugin: the symbol ds_plugin_entry is missing").at(path);
  const DsPlugin *p = entry(DS_ABI, DS_BUILD);
  if (!p)
    return Status::error(fmt::format("refuses to serve ABI {}, build '{}'", DS_ABI, DS_BUILD))
        .at(path);
  // The ABI comes first: nothing else of the table may be looked at before it agrees.
  if (p->abi != DS_ABI)
    return Status::error(fmt::format("has plugin ABI {}, expected {}", p->abi, DS_ABI)).at(path);
  if (!p->build || std::strcmp(p->build, DS_BUILD) != 0)
    return Status::error(fmt::format("comes from build '{}', expected '{}'",
                                     p->build ? p->build : "", DS_BUILD))
        .at(path);
  if (!p->device || (p->numKernels > 0 && !p->kernels))
    return Status::error("has an incomplete table: no device name or no kernels").at(path);
  if (const DsDeviceApi *a = p->api)
    if (!a->count || !a->open || !a->allocate || !a->release || !a->streamCreate ||
        !a->streamDestroy || !a->streamSync || !a->eventCreate || !a->eventDestroy ||
        !a->eventRecord || !a->eventWait || !a->eventSync || !a->copy || !a->fill || !a->peers ||
        !a->sum || !a->faultText || !a->captureBegin || !a->captureRecord || !a->captureEnd ||
        !a->graphLaunch || !a->graphDestroy)
      return Status::error("has an incomplete device api").at(path);
  for (size_t i = 0; i < p->numKernels; ++i)
    if (const DsKernel &k = p->kernels[i]; !k.op || !k.dtypes || !k.run)
      return Status::error(
                 fmt::format("kernel {} of {} has no op, dtypes or run function", i, p->numKernels))
          .at(path);
  return p;
}

} // namespace ds
