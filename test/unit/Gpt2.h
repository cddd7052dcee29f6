// SPDX-License-Identifier: Apache-2.0
//
// Exported GPT-2 models in tests: plan one, train it, and read PyTorch's answers (test/golden/README.md).
#pragma once

#include "frontend/OnnxImport.h"
#include "passes/Passes.h"
#include "runtime/Trainer.h"

#include <map>
#include <string>
#include <vector>

namespace ds::test {

/// Path of a file below the source tree's root.
std::string inTree(const std::string &path);

struct Gpt2Run {
  std::string model;     // "models/gpt2-small/model.onnx"
  int64_t sequence = 64; // 0: the model is static
  std::string tokens;    // "data/train.bin"
#ifdef DS_HAVE_CPU_DEVICE
  std::string device = "cpu";
#else
  std::string device = "ref";
#endif
  int threads = 1;
  PlanConfig config;
  double linkBytesPerSecond = 0;
  size_t traceEvents = 0;
};

StatusOr<Schedule> planGpt2(const Gpt2Run &run);
StatusOr<std::unique_ptr<Trainer>> startGpt2(const Gpt2Run &run);

using Tensors = std::map<std::string, std::vector<double>>;
/// Reads a safetensors file of f32 and f64 tensors; aborts the test's assumptions with an empty map on error.
Tensors readSafetensors(const std::string &path);
/// Weights, and the summed gradients of the last update before clipping, by exported name.
Tensors weightsOf(const Trainer &t);
Tensors gradientsOf(const Trainer &t);

/// |a - b| / |b|, L2.
double relativeDistance(const std::vector<double> &a, const std::vector<double> &b);

} // namespace ds::test
