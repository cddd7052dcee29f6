// SPDX-License-Identifier: Apache-2.0
#include "tools/Devices.h"

#include "kernels/Registry.h"
#include "runtime/Plugin.h"

#include <cstdlib>
#include <filesystem>

namespace ds {

namespace fs = std::filesystem;

static DeviceKernels kernelsOf(std::string name, KernelTable table) {
  return {std::move(name), [table](const char *op, DType t) { return findKernel(table, op, t); }};
}

static Device cpuDevice() {
#ifdef DS_HAVE_CPU_DEVICE
  return {"cpu", {kernelsOf("cpu", cpuKernels()), kernelsOf("ref", refKernels())}};
#else
  return {"ref", {kernelsOf("ref", refKernels())}};
#endif
}

StatusOr<Device> pluginDevice(const std::string &path) {
  TRY_ASSIGN(const DsPlugin *p, loadPlugin(path));
  Device d{p->device, {kernelsOf(p->device, {p->kernels, p->numKernels})}};
  DeviceKernels ref = kernelsOf("ref", refKernels());
  if (!p->api) {
    d.kernels.push_back(std::move(ref));
    return d;
  }
  d.api = p->api;
  d.hostKernels = cpuDevice().kernels;
  return d;
}

std::string pluginPath(const std::string &name) {
  std::string file = "libds" + name + ".so";
  std::error_code e;
  fs::path here = fs::read_symlink("/proc/self/exe", e).parent_path();
  const char *given = std::getenv("DS_PLUGIN_DIR");
  for (const fs::path &dir : {fs::path(given ? given : here), here, here / ".." / "lib"})
    if (!e && fs::exists(dir / file, e))
      return (dir / file).string();
  return file;
}

StatusOr<Device> findDevice(const std::string &name) {
  if (name == "ref")
    return Device{"ref", {kernelsOf("ref", refKernels())}};
  if (name == "cpu") {
    Device d = cpuDevice();
    if (d.name != "cpu")
      return Status::error(
          "--device cpu: this build has no cpu kernels, since oneDNN or Highway was "
          "not found; --device ref works everywhere");
    return d;
  }
  if (name == "auto") {
    std::error_code e;
    if (!fs::exists("/dev/nvidiactl", e))
      return cpuDevice();
    StatusOr<Device> d = pluginDevice(pluginPath("cuda"));
    if (!d.ok())
      return std::move(d).status().note(
          "this machine has an NVIDIA device; --device cpu ignores it");
    return d;
  }
  bool plain = !name.empty() &&
               name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string::npos;
  if (!plain)
    return Status::error("--device '" + name + "': expected auto, cpu, ref, or a plugin's name");
  StatusOr<Device> d = pluginDevice(pluginPath(name));
  if (!d.ok())
    return std::move(d).status().note("--device " + name +
                                      " needs this plugin; linked in are cpu "
                                      "and ref");
  return d;
}

} // namespace ds
