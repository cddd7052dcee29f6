// SPDX-License-Identifier: Apache-2.0
//
// The one order in which collectives add: ((r0 + r1) + r2) + ..., element by element.
#pragma once

#include "ir/DType.h"

namespace ds {

bool canSum(DType t); // floats, i64
/// The type of the sum: floats of 16 bits are added in f32.
constexpr DType sumType(DType t) { return isFloat(t) ? accumType(t) : t; }
/// dst[i] = sources[0][i] + sources[1][i] + ... for n elements of type t; dst has sumType(t). Where that is t, dst may
/// be one of the sources.
void sumInOrder(DType t, const void *const *sources, int count, void *dst, int64_t n);

} // namespace ds
