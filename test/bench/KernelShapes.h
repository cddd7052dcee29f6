// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one update of GPT-2 at their shapes, f32: what the benchmarks of devices run.
#pragma once

#include "test/unit/KernelHarness.h"

#include <functional>

namespace ds::test {

/// GPT-2 124M by default, on a micro-batch of 4 x 256 tokens.
struct Gpt2Shape {
  int64_t batch = 4, seq = 256, width = 768, heads = 12, vocab = 50257;
};

struct ShapeCase {
  std::string name;                 // "matmul fc x W"
  std::function<KernelCase()> make; // large; not before it is needed
  double flops = 0;                 // of one launch; 0: what counts is bytes
};

std::vector<ShapeCase> gpt2Kernels(const Gpt2Shape &shape = {});

/// Operands read and results written, once each.
double bytesOf(const KernelCase &c);

} // namespace ds::test
