// SPDX-License-Identifier: Apache-2.0
//
// Included before Highway: the instruction sets that kernels are compiled for. AVX-512, AVX2 and the
// portable baseline cover every x86-64 machine of the last ten years; each more costs build time for no speed.
#pragma once

#include <hwy/detect_targets.h>
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

namespace ds::cpu {

/// Detects the instruction set. Before this, a function found by HWY_DYNAMIC_DISPATCH detects it in every call,
/// and kernels keep such functions for a whole run; so prepare does it.
void chooseTargets();

} // namespace ds::cpu
