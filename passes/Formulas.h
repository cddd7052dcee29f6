// SPDX-License-Identifier: Apache-2.0
//
// What exporters spell out and the op set has whole.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// Replaces known formulas by the op that they compute; what they no longer need is left without users.
void recognizeFormulas(Module &m, Program &p);
/// Sums of padded pieces that fill an axis without overlap, as autodiff leaves them of slices, become concatenations.
void joinPads(Module &m, Program &p);

} // namespace ds
