// SPDX-License-Identifier: Apache-2.0
//
// The kernels' part of tools/gpu_check: one JSON object per line on standard output, as results come.
#pragma once

#include "test/unit/KernelHarness.h"

#include <set>
#include <string>

namespace ds::test {

/// A device that is open, and a stream of it.
struct Gpu {
  KernelTable kernels;
  const DsDeviceApi &api;
  RunOptions options;
};

/// Sizes of the update whose kernels are timed, and how long each is.
struct SpeedOptions {
  int64_t batch = 8, seq = 1024, width = 768, heads = 12, vocab = 50257;
  double seconds = 0.05;
  int64_t copyBytes = int64_t{1} << 30;
  int64_t square = 8192; // of the product that stands for the most there is
  bool oneOfEachOp = false;
  int64_t images = 32, channels = 64, extent = 56; // of a convolution: ResNet-18's first blocks
  std::set<std::string> without;                   // kernels and ceilings
};

/// Rates of copies and of large products, then of each kernel of an update of GPT-2 and of a convolution and its gradients, in f32 and
/// bf16. Null, or what failed.
const char *measureSpeed(const Gpu &gpu, const SpeedOptions &o);

void printBegin(const std::string &name);

/// "text" with quotes and backslashes escaped.
std::string quoted(const std::string &text);

} // namespace ds::test
