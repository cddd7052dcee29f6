// SPDX-License-Identifier: Apache-2.0
//
// What passes share about 16-bit training.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// The factor of the loss, or null: mixed-precision adds it for fp16, autodiff seeds the gradients with it, and
/// attach-optimizer takes it out again.
Symbol *findLossScale(const Module &m);

/// The bucket that an optimizer op updates: its operand 1, or what the rounding of its master is bound to.
Symbol *optimizedBucket(const Op &optimizer);

/// The symbol whose values an optimizer op changes: the bucket itself, or its master.
Symbol *masterOf(const Op &optimizer);

} // namespace ds
