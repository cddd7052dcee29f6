// SPDX-License-Identifier: Apache-2.0
//
// Element conversion between storage types: what loading, saving and reading data need.
// Floats round to nearest even; integers wrap; a float becomes an integer by truncation
// (NaN: 0; outside the type: its nearer end).
#pragma once

#include "ir/DType.h"

#include <cstddef>
#include <cstdint>

namespace ds {

float bf16ToFloat(uint16_t v);
uint16_t floatToBf16(float v);
float f16ToFloat(uint16_t v);
uint16_t floatToF16(float v);

/// n elements; the ranges may not overlap. Equal types copy bytes.
void convert(DType to, void *dst, DType from, const void *src, int64_t n);
/// Element i as a double.
double toDouble(DType t, const void *data, int64_t i);
/// Element i as an integer; floats truncate.
int64_t toInt(DType t, const void *data, int64_t i);

} // namespace ds
