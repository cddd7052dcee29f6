// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/MatmulShape.h"
#include "kernels/cpu/Cpu.h"

namespace ds::cpu {

/// Our own kernel: any strides, no workspace; adds: to what is in c.
void ownMatmul(const MatmulShape &s, const float *a, const float *b, float *c, int threads,
               bool adds = false);

} // namespace ds::cpu
