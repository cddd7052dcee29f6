// SPDX-License-Identifier: Apache-2.0
//
// The one order in which collectives add: ((r0 + r1) + r2) + ..., element by element.
#pragma once

#include "ir/DType.h"

namespace ds {

bool canSum(DType t); // f32, f64, i64
/// dst[i] = sources[0][i] + sources[1][i] + ... for n elements. dst may be one of the sources.
void sumInOrder(DType t, const void *const *sources, int count, void *dst, int64_t n);

} // namespace ds
