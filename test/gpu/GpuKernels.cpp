// SPDX-License-Identifier: Apache-2.0
//
//   gpu_kernels parity [row...] [-row...]       every row of the plugin against ref, on the device
//   gpu_kernels speed [small] [-kernel...]      rates of its kernels; small: sizes for the emulation
//
// -name: without it. What begins is printed first, so that a caller knows what took the program down, and can do the others.
// Exit status 1: something is wrong; 3: the device fails, and whatever comes next would.
#include "kernels/Registry.h"
#include "runtime/Plugin.h"
#include "test/gpu/Gpu.h"
#include "test/unit/CudaParity.h"
#include "tools/Devices.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace ds::test {

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

void printBegin(const std::string &name) {
  std::printf("{\"begin\": %s}\n", quoted(name).c_str());
  std::fflush(stdout);
}

namespace {

constexpr int kDeviceFails = 3;

int complain(const std::string &message) {
  std::fprintf(stderr, "gpu_kernels: error: %s\n", message.c_str());
  return 1;
}

// Fibers are slow; a GPU is not.
int64_t largestOf(const DsDeviceInfo &info) { return info.emulated ? 1500 : INT64_MAX; }

int parity(const Gpu &gpu, int64_t largest, const std::set<std::string> &wanted,
           const std::set<std::string> &without) {
  int failures = 0;
  for (size_t i = 0; i < gpu.kernels.count; ++i) {
    std::string op = gpu.kernels.rows[i].op;
    if ((!wanted.empty() && !wanted.count(op)) || without.count(op))
      continue;
    printBegin(op);
    int ran = 0;
    std::string first;
    for (const KernelCase &c : deviceCases(op, largest)) {
      ParityResult p = compareWithRef(gpu.kernels, c, gpu.options);
      ran += p.ran;
      if (!p.difference.empty() && first.empty())
        first = c.name + ": " + p.difference;
    }
    if (ran == 0)
      first = "no case ran";
    failures += !first.empty();
    std::printf("{\"row\": %s, \"cases\": %d, \"failure\": %s}\n", quoted(op).c_str(), ran,
                first.empty() ? "null" : quoted(first).c_str());
    std::fflush(stdout);
    if (const char *m = gpu.api.streamSync(gpu.options.stream)) {
      complain(m);
      return kDeviceFails;
    }
  }
  return failures ? 1 : 0;
}

int run(int argc, char **argv) {
  std::string what = argc > 1 ? argv[1] : "";
  if (what != "parity" && what != "speed")
    return complain("expected 'parity [row...]' or 'speed [small]'");
  StatusOr<const DsPlugin *> plugin = loadPlugin(pluginPath("cuda"));
  if (!plugin.ok())
    return complain(plugin.status().str());
  const DsPlugin &p = **plugin;
  if (!p.api)
    return complain("the plugin has no memory of its own");
  DsDeviceInfo info;
  int32_t devices = 0;
  if (const char *m = p.api->count(&devices))
    return complain(m);
  if (devices == 0)
    return complain("there is no device");
  if (const char *m = p.api->open(0, &info))
    return complain(m);
  Gpu gpu{{p.kernels, p.numKernels}, *p.api, {}};
  gpu.options.api = p.api;
  if (const char *m = p.api->streamCreate(&gpu.options.stream))
    return complain(m);
  std::printf("{\"device\": %s, \"memory\": %lld, \"emulated\": %s}\n", quoted(info.name).c_str(),
              static_cast<long long>(info.memory), info.emulated ? "true" : "false");
  std::fflush(stdout);
  std::set<std::string> names, without;
  for (int i = 2; i < argc; ++i)
    if (argv[i][0] == '-')
      without.insert(argv[i] + 1);
    else
      names.insert(argv[i]);
  if (what == "parity")
    return parity(gpu, largestOf(info), names, without);
  SpeedOptions o;
  if (names.count("small"))
    o = {1, 8, 32, 2, 67, 0, 1 << 16, 32, true, 2, 4, 8, {}};
  o.without = std::move(without);
  if (const char *m = measureSpeed(gpu, o)) {
    complain(m);
    return kDeviceFails;
  }
  return 0;
}

} // namespace
} // namespace ds::test

int main(int argc, char **argv) { return ds::test::run(argc, argv); }
